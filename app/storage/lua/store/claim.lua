-- ARGV: holder, lease in ms. Returns the id.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now)) do
  if redis.call('EXISTS', record(id)) == 1 then
    redis.call('HSET', holders, id, ARGV[1])
    lease(id, now + tonumber(ARGV[2]))
    return id
  end
  remove(id)
end
return false
