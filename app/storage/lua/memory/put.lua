-- ARGV: scope, most pairs, most bytes, then for each pair, whose ids are distinct, its text's id, the pair, its size.
-- Returns the version and the ids that are new, or what is scarce.
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
