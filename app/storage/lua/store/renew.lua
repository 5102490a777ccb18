local id, holder = ARGV[1], ARGV[2]
if redis.call('HGET', holders, id) ~= holder or redis.call('EXISTS', record(id)) == 0 then return 0 end
lease(id, now + tonumber(ARGV[3]))
return 1
