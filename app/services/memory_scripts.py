"""The operations of translation memories on Valkey or Redis that must be atomic, in Lua.

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

from app.services.store_scripts import Script

_SCOPE = """
local base, scope = KEYS[1], ARGV[1]
local pairs_key, sizes = base .. ':pairs:' .. scope, base .. ':sizes:' .. scope
local changes, versions, totals = base .. ':changes:' .. scope, base .. ':versions', base .. ':totals'
local entry = redis.call('HGET', versions, scope) or '0 0'
local version, complete = string.match(entry, '^(%d+) (%d+)$')

local function add(pairs, bytes)
  redis.call('HINCRBY', totals, 'pairs', string.format('%.0f', pairs))
  redis.call('HINCRBY', totals, 'bytes', string.format('%.0f', bytes))
end

-- A larger version, and from when on all removals are known: for a new scope, from now on.
local function raise()
  local time = redis.call('TIME')
  local now = math.max(time[1] * 1000000 + time[2], tonumber(version) + 1)
  version = string.format('%.0f', now)
  if complete == '0' then complete = version end
  redis.call('HSET', versions, scope, version .. ' ' .. complete)
end
"""
PUT = Script.of(
    _SCOPE,
    """
local new, bytes = {}, 0
for n = 4, #ARGV, 3 do
  local old = redis.call('HGET', sizes, ARGV[n])
  if not old then table.insert(new, ARGV[n]) end
  bytes = bytes + tonumber(ARGV[n + 2]) - tonumber(old or 0)
end
local held = redis.call('HMGET', totals, 'pairs', 'bytes')
if #new > 0 and tonumber(held[1] or 0) + #new > tonumber(ARGV[2]) then return {'pairs'} end
if bytes > 0 and tonumber(held[2] or 0) + bytes > tonumber(ARGV[3]) then return {'bytes'} end
raise()
for n = 4, #ARGV, 3 do
  redis.call('HSET', pairs_key, ARGV[n], ARGV[n + 1])
  redis.call('HSET', sizes, ARGV[n], ARGV[n + 2])
  redis.call('ZADD', changes, version, ARGV[n])
end
add(#new, bytes)
table.insert(new, 1, version)
return new
""",
)
"""ARGV: scope, most pairs, most bytes, then for each pair, whose ids are distinct, its text's id, the pair, its size.
Returns the version and the ids that are new, or what is scarce."""
GROWTH = Script.of(
    _SCOPE,
    """
local number, bytes = 0, 0
for n = 2, #ARGV, 2 do
  local old = redis.call('HGET', sizes, ARGV[n])
  number = number + (old and 0 or 1)
  bytes = bytes + tonumber(ARGV[n + 1]) - tonumber(old or 0)
end
local held = redis.call('HMGET', totals, 'pairs', 'bytes')
return {number, bytes, tonumber(held[1] or 0), tonumber(held[2] or 0)}
""",
)
"""ARGV: scope, then for each pair, whose ids are distinct, its text's id and its size. Returns how many pairs and bytes
more there would be, and how many there are in all scopes."""
REMOVE = Script.of(
    _SCOPE,
    """
local existing, bytes = {}, 0
for n = 3, #ARGV do
  local size = redis.call('HGET', sizes, ARGV[n])
  if size then
    table.insert(existing, ARGV[n])
    bytes = bytes + tonumber(size)
  end
end
if #existing == 0 then return {0, version} end
raise()
for _, id in ipairs(existing) do
  redis.call('HDEL', pairs_key, id)
  redis.call('HDEL', sizes, id)
  redis.call('ZADD', changes, version, id)
end
add(-#existing, -bytes)
-- Removals are forgotten together, when they are too many.
if redis.call('ZCARD', changes) - redis.call('HLEN', pairs_key) > tonumber(ARGV[2]) then
  for _, id in ipairs(redis.call('ZRANGE', changes, 0, -1)) do
    if redis.call('HEXISTS', pairs_key, id) == 0 then redis.call('ZREM', changes, id) end
  end
  complete = version
  redis.call('HSET', versions, scope, version .. ' ' .. complete)
end
return {#existing, version}
""",
)
"""ARGV: scope, how many removals to remember, ids of texts. Returns the number removed, and the version."""
CLEAR = Script.of(
    _SCOPE,
    """
local number, bytes = redis.call('HLEN', pairs_key), 0
if number == 0 then return {0, version} end
for _, size in ipairs(redis.call('HVALS', sizes)) do bytes = bytes + tonumber(size) end
raise()
complete = version
redis.call('HSET', versions, scope, version .. ' ' .. complete)
redis.call('UNLINK', pairs_key, sizes, changes)
add(-number, -bytes)
return {number, version}
""",
)
CHANGES = Script.of(
    _SCOPE,
    """
local is_complete = ARGV[3] == '0' and tonumber(ARGV[2]) < tonumber(complete)
local from = is_complete and '-inf' or '(' .. ARGV[2]
local edge = redis.call('ZRANGEBYSCORE', changes, from, '+inf', 'WITHSCORES', 'LIMIT', ARGV[4], 1)
local found = redis.call('ZRANGEBYSCORE', changes, from, edge[2] or '+inf', 'WITHSCORES')
local answer, bytes = {version, complete, is_complete and 1 or 0, edge[2] or ''}, 0
for n = 1, #found, 2 do
  if bytes > tonumber(ARGV[5]) and found[n + 1] ~= found[n - 1] then
    answer[4] = found[n - 1]
    break
  end
  local pair = redis.call('HGET', pairs_key, found[n])
  if pair or not is_complete then
    bytes = bytes + #(pair or '')
    table.insert(answer, found[n + 1])
    table.insert(answer, found[n])
    table.insert(answer, pair or '')
  end
end
return answer
""",
)
"""ARGV: scope, a version after which to read, the scope's version when the first part was read or 0, and how many
changes and bytes to read, and the rest of the last one's version. Returns the scope's version, that from which on all
removals are known, whether all pairs are read, the version that the next part begins after or "", and for each change
its version, the text's id, and the pair, or an empty string if it was removed."""
VERSIONS = Script.of(
    """
local found = {}
local all = redis.call('HGETALL', KEYS[1] .. ':versions')
for n = 1, #all, 2 do
  if string.sub(all[n], 1, #ARGV[1]) == ARGV[1] then
    table.insert(found, string.sub(all[n], #ARGV[1] + 1))
    table.insert(found, string.match(all[n + 1], '^%d+'))
  end
end
return found
"""
)
"""ARGV: "OWNER/". Returns "SOURCE/TARGET" and the version of each of the owner's scopes."""
ALL = (PUT, GROWTH, REMOVE, CLEAR, CHANGES, VERSIONS)
