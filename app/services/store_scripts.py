"""The operations of the store on Valkey or Redis that must be atomic, in Lua.

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
from typing import NamedTuple


class Script(NamedTuple):
    """A script, and the digest by which the server knows it."""

    source: str
    digest: str

    @classmethod
    def of(cls, *parts: str) -> Script:
        source = "".join(parts)
        return cls(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


# Microseconds since 2025: of larger numbers, a Lua number would lose the fractions that high rates need.
_RATE = """
local interval = tonumber(ARGV[1]) * 1000000
local capacity = tonumber(ARGV[2])
local time = redis.call('TIME')
local now = (time[1] - 1735660800) * 1000000 + time[2]
local arrival = math.max(now, tonumber(redis.call('GET', KEYS[1]) or now))
"""
TAKE = Script.of(
    _RATE,
    """
local amount = tonumber(ARGV[3])
local remaining = capacity - amount + math.floor((now - arrival) / interval)
if remaining < 0 then
  return string.format('%.6f', (arrival + (amount - capacity) * interval - now) / 1000000)
end
arrival = arrival + amount * interval
if arrival > now then
  redis.call('SET', KEYS[1], string.format('%.3f', arrival), 'PX', math.ceil((arrival - now) / 1000))
end
return '0'
""",
)
"""ARGV: seconds for which one unit counts, the amount at most, the amount to take. Returns the seconds to wait.

The generic cell rate algorithm, as in `app.runtime.rate_limits`: a key holds the theoretical arrival time.
"""
USED = Script.of(_RATE, "return capacity - math.max(0, capacity + math.floor((now - arrival) / interval))")

_RECORDS = """
local base = KEYS[1]
local index, expiry, droppable = base .. ':index', base .. ':expiry', base .. ':droppable'
local leases, holders, held = base .. ':leases', base .. ':holders', base .. ':bytes'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function record(id) return base .. ':record:' .. id end

local function size_of(id)
  local entry = redis.call('HGET', index, id)
  return entry and tonumber(string.match(entry, ' (%d+)$')) or 0
end

local function remove(id)
  local existed = redis.call('UNLINK', record(id))
  redis.call('DECRBY', held, string.format('%.0f', size_of(id)))
  redis.call('HDEL', index, id)
  redis.call('HDEL', holders, id)
  for _, key in ipairs({expiry, droppable, leases}) do redis.call('ZREM', key, id) end
  return existed
end

-- Of a kind that does not expire, the index has no life either.
local function lease(id, until_ms)
  redis.call('ZADD', leases, until_ms, id)
  local life = redis.call('PTTL', index)
  if life > 0 then for _, key in ipairs({leases, holders}) do redis.call('PEXPIRE', key, life) end end
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', expiry, '-inf', now)) do remove(id) end
"""
PUT = Script.of(
    _RECORDS,
    """
local id, replaces, size = ARGV[1], ARGV[2], tonumber(ARGV[3])
local max_records, max_bytes = tonumber(ARGV[4]), tonumber(ARGV[5])
local life, keep, number_set = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])

local known = redis.call('HGET', record(id), 'version')
-- Not in every case: a server without memory checks only the first command that writes, and would let this one pass.
if not known and redis.call('HEXISTS', index, id) == 1 then remove(id) end
if (known or '0') ~= replaces then return 'conflict' end

local number = redis.call('HLEN', index) + (known and 0 or 1)
local bytes = tonumber(redis.call('GET', held) or 0) - size_of(id) + size
local dropped = {}
if number > max_records or bytes > max_bytes then
  for _, other in ipairs(redis.call('ZRANGEBYSCORE', droppable, '-inf', now)) do
    if other ~= id then
      table.insert(dropped, other)
      number, bytes = number - 1, bytes - size_of(other)
      if number <= max_records and bytes <= max_bytes then break end
    end
  end
  if number > max_records then return 'records' end
  if bytes > max_bytes then return 'bytes' end
end
for _, other in ipairs(dropped) do remove(other) end

-- The time in microseconds, so that no version comes twice even if the server has lost what it held.
local version = time[1] * 1000000 + time[2]
if known then version = math.max(version, tonumber(known) + 1) end
version = string.format('%.0f', version)
redis.call('HSET', record(id), 'version', version)
for n = 1, number_set do redis.call('HSET', record(id), ARGV[7 + 2 * n], ARGV[8 + 2 * n]) end
for n = 9 + 2 * number_set, #ARGV do redis.call('HDEL', record(id), ARGV[n]) end
redis.call('HSET', index, id, version .. ' ' .. string.format('%.0f', size))
redis.call('SET', held, string.format('%.0f', bytes), 'KEEPTTL')
if life > 0 and not known then
  redis.call('PEXPIRE', record(id), life)
  redis.call('ZADD', expiry, now + life, id)
end
if keep < 0 then redis.call('ZREM', droppable, id) else redis.call('ZADD', droppable, now + keep, id) end
if life > 0 then
  for _, key in ipairs({index, expiry, droppable, leases, holders, held}) do
    redis.call('PEXPIRE', key, life + 60000)
  end
end
return version
""",
)
"""ARGV: id, version to replace, size, most records, most bytes, life and time to keep in ms (0 and -1: for ever), how
many fields to set, their names and values, the names of those to remove. Returns the version, or what is wrong."""
DELETE = Script.of(_RECORDS, "return remove(ARGV[1])")
VERSIONS = Script.of(_RECORDS, "return redis.call('HGETALL', index)")
OFFER = Script.of(
    _RECORDS,
    """
local id, holder = ARGV[1], ARGV[2]
if (redis.call('HGET', holders, id) or '') ~= holder or redis.call('EXISTS', record(id)) == 0 then return 0 end
redis.call('HDEL', holders, id)
lease(id, now)
return 1
""",
)
CLAIM = Script.of(
    _RECORDS,
    """
for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now)) do
  if redis.call('EXISTS', record(id)) == 1 then
    redis.call('HSET', holders, id, ARGV[1])
    lease(id, now + tonumber(ARGV[2]))
    return id
  end
  remove(id)
end
return false
""",
)
"""ARGV: holder, lease in ms."""
RENEW = Script.of(
    _RECORDS,
    """
local id, holder = ARGV[1], ARGV[2]
if redis.call('HGET', holders, id) ~= holder or redis.call('EXISTS', record(id)) == 0 then return 0 end
lease(id, now + tonumber(ARGV[3]))
return 1
""",
)
WITHDRAW = Script.of(
    _RECORDS,
    """
local id, holder = ARGV[1], ARGV[2]
if redis.call('HGET', holders, id) ~= holder then return 0 end
redis.call('HDEL', holders, id)
return redis.call('ZREM', leases, id)
""",
)
ALL = (TAKE, USED, PUT, DELETE, VERSIONS, OFFER, CLAIM, RENEW, WITHDRAW)
