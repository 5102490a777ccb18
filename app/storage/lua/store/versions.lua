return redis.call('HGETALL', index)
