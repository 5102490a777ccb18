"""The operations of the store on Valkey or Redis that must be atomic, in Lua: the files of the folder `lua/store`.

Times are the server's, since the clocks of instances differ. Each script's first key is that of a rate, or the prefix
of a kind of records. A kind `documents` has these keys:

    PREFIX:documents:record:ID    a hash: its fields, and `version`; expires by itself
    PREFIX:documents:index        a hash: id to "version size"
    PREFIX:documents:bytes        the sum of the sizes
    PREFIX:documents:expiry       a sorted set: id to when it expires
    PREFIX:documents:droppable    a sorted set: id to when it may be dropped to make room
    PREFIX:documents:leases       a sorted set: id to when its lease lapses
    PREFIX:documents:holders      a hash: id to the holder of its lease

All others but `record` expire with the youngest record. They hold no texts.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).with_name("lua")


class Script(NamedTuple):
    """A script, and the digest by which the server knows it."""

    source: str
    digest: str

    @classmethod
    def of(cls, *names: str) -> Script:
        """The script in these files of the folder `lua`, one after the other."""
        source = "".join((_FOLDER / f"{name}.lua").read_text("utf-8") for name in names)
        return cls(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


TAKE = Script.of("store/rate", "store/take")
"""ARGV: seconds for which one unit counts, the amount at most, the amount to take. Returns the seconds to wait.

The generic cell rate algorithm, as in `app.runtime.rate_limits`: a key holds the theoretical arrival time.
"""
USED = Script.of("store/rate", "store/used")
PUT = Script.of("store/records", "store/put")
"""ARGV: id, version to replace, size, most records, most bytes, life and time to keep in ms (0 and -1: for ever), how
many fields to set, their names and values, the names of those to remove. Returns the version, or what is wrong."""
DELETE = Script.of("store/records", "store/delete")
VERSIONS = Script.of("store/records", "store/versions")
OFFER = Script.of("store/records", "store/offer")
CLAIM = Script.of("store/records", "store/claim")
"""ARGV: holder, lease in ms."""
RENEW = Script.of("store/records", "store/renew")
WITHDRAW = Script.of("store/records", "store/withdraw")
ALL = (TAKE, USED, PUT, DELETE, VERSIONS, OFFER, CLAIM, RENEW, WITHDRAW)
