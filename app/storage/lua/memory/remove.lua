-- ARGV: scope, how many removals to remember, ids of texts. Returns the number removed, and the version.
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
