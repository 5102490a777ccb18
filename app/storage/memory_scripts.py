"""The operations of translation memories on Valkey or Redis that must be atomic, in Lua: the files of `lua/memory`.

Each script's key is the prefix of all memories. A scope, ARGV[1], is OWNER/SOURCE/TARGET; it has these keys:

    PREFIX:pairs:SCOPE      a hash: a text's id to its pair
    PREFIX:sizes:SCOPE      a hash: a text's id to the bytes that the pair counts as
    PREFIX:changes:SCOPE    a sorted set: a text's id to the version of its last change, also if it was removed
    PREFIX:versions         a hash: SCOPE to "version complete_since"
    PREFIX:totals           a hash: `pairs` and `bytes` of all scopes

`complete_since` is the version from which on all removals are known. Versions are times, so that none comes twice even
if the server has lost what it held.
"""

from __future__ import annotations

from app.storage.scripts import Script

PUT = Script.of("memory/scope", "memory/put")
"""ARGV: scope, most pairs, most bytes, then for each pair, whose ids are distinct, its text's id, the pair, its size.
Returns the version and the ids that are new, or what is scarce."""
GROWTH = Script.of("memory/scope", "memory/growth")
"""ARGV: scope, then for each pair, whose ids are distinct, its text's id and its size. Returns how many pairs and bytes
more there would be, and how many there are in all scopes."""
REMOVE = Script.of("memory/scope", "memory/remove")
"""ARGV: scope, how many removals to remember, ids of texts. Returns the number removed, and the version."""
CLEAR = Script.of("memory/scope", "memory/clear")
CHANGES = Script.of("memory/scope", "memory/changes")
"""ARGV: scope, a version after which to read, the scope's version when the first part was read or 0, and how many
changes and bytes to read, and the rest of the last one's version. Returns the scope's version, that from which on all
removals are known, whether all pairs are read, the version that the next part begins after or "", and for each change
its version, the text's id, and the pair, or an empty string if it was removed."""
VERSIONS = Script.of("memory/versions")
"""ARGV: "OWNER/". Returns "SOURCE/TARGET" and the version of each of the owner's scopes."""
ALL = (PUT, GROWTH, REMOVE, CLEAR, CHANGES, VERSIONS)
