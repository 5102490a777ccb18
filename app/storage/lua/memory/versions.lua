-- ARGV: "OWNER/". Returns "SOURCE/TARGET" and the version of each of the owner's scopes.
local found = {}
local all = redis.call('HGETALL', KEYS[1] .. ':versions')
for n = 1, #all, 2 do
  if string.sub(all[n], 1, #ARGV[1]) == ARGV[1] then
    table.insert(found, string.sub(all[n], #ARGV[1] + 1))
    table.insert(found, string.match(all[n + 1], '^%d+'))
  end
end
return found
