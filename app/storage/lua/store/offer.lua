local id, holder = ARGV[1], ARGV[2]
if (redis.call('HGET', holders, id) or '') ~= holder or redis.call('EXISTS', record(id)) == 0 then return 0 end
redis.call('HDEL', holders, id)
lease(id, now)
return 1
