-- The records of a kind. Times are the server's, since the clocks of instances differ. KEYS[1] is PREFIX:KIND, which
-- begins these keys; all but `record` expire with the youngest record, and hold no texts:
--   record:ID    a hash: its fields, and `version`; expires by itself
--   index        a hash: id to "version size"
--   bytes        the sum of the sizes
--   expiry       a sorted set: id to when it expires
--   droppable    a sorted set: id to when it may be dropped to make room
--   leases       a sorted set: id to when its lease lapses
--   holders      a hash: id to the holder of its lease
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
