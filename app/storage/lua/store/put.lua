-- ARGV: id, version to replace, size, most records, most bytes, life and time to keep in ms (0 and -1: for ever), how
-- many fields to set, their names and values, the names of those to remove. Returns the version, or what is wrong.
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
