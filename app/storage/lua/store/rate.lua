-- The generic cell rate algorithm, as in `app.runtime.rate_limits`: the key holds the theoretical arrival time.
-- ARGV: seconds for which one unit counts, the amount at most.

-- Microseconds since 2025: of larger numbers, a Lua number would lose the fractions that high rates need.
local interval = tonumber(ARGV[1]) * 1000000
local capacity = tonumber(ARGV[2])
local time = redis.call('TIME')
local now = (time[1] - 1735660800) * 1000000 + time[2]
local arrival = math.max(now, tonumber(redis.call('GET', KEYS[1]) or now))
