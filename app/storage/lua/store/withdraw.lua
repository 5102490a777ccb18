local id, holder = ARGV[1], ARGV[2]
if redis.call('HGET', holders, id) ~= holder then return 0 end
redis.call('HDEL', holders, id)
return redis.call('ZREM', leases, id)
