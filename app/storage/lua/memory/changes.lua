-- ARGV: scope, a version after which to read, the scope's version when the first part was read or 0, and how many
-- changes and bytes to read, and the rest of the last one's version. Returns the scope's version, that from which on all
-- removals are known, whether all pairs are read, the version that the next part begins after or "", and for each change
-- its version, the text's id, and the pair, or an empty string if it was removed.
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
