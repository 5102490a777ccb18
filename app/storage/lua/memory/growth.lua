-- ARGV: scope, then for each pair, whose ids are distinct, its text's id and its size. Returns how many pairs and bytes
-- more there would be, and how many there are in all scopes.
local number, bytes = 0, 0
for n = 2, #ARGV, 2 do
  local old = redis.call('HGET', sizes, ARGV[n])
  number = number + (old and 0 or 1)
  bytes = bytes + tonumber(ARGV[n + 1]) - tonumber(old or 0)
end
local held = redis.call('HMGET', totals, 'pairs', 'bytes')
return {number, bytes, tonumber(held[1] or 0), tonumber(held[2] or 0)}
