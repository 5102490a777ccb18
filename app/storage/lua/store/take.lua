-- ARGV: also the amount to take. Returns the seconds to wait.
local amount = tonumber(ARGV[3])
local remaining = capacity - amount + math.floor((now - arrival) / interval)
if remaining < 0 then
  return string.format('%.6f', (arrival + (amount - capacity) * interval - now) / 1000000)
end
arrival = arrival + amount * interval
if arrival > now then
  redis.call('SET', KEYS[1], string.format('%.3f', arrival), 'PX', math.ceil((arrival - now) / 1000))
end
return '0'
