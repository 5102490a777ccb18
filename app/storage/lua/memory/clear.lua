-- Returns the number removed, and the version.
local number, bytes = redis.call('HLEN', pairs_key), 0
if number == 0 then return {0, version} end
for _, size in ipairs(redis.call('HVALS', sizes)) do bytes = bytes + tonumber(size) end
raise()
complete = version
redis.call('HSET', versions, scope, version .. ' ' .. complete)
redis.call('UNLINK', pairs_key, sizes, changes)
add(-number, -bytes)
return {number, version}
