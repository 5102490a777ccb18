local base, scope = KEYS[1], ARGV[1]
local pairs_key, sizes = base .. ':pairs:' .. scope, base .. ':sizes:' .. scope
local changes, versions, totals = base .. ':changes:' .. scope, base .. ':versions', base .. ':totals'
local entry = redis.call('HGET', versions, scope) or '0 0'
local version, complete = string.match(entry, '^(%d+) (%d+)$')

local function add(pairs, bytes)
  redis.call('HINCRBY', totals, 'pairs', string.format('%.0f', pairs))
  redis.call('HINCRBY', totals, 'bytes', string.format('%.0f', bytes))
end

-- A larger version, and from when on all removals are known: for a new scope, from now on.
local function raise()
  local time = redis.call('TIME')
  local now = math.max(time[1] * 1000000 + time[2], tonumber(version) + 1)
  version = string.format('%.0f', now)
  if complete == '0' then complete = version end
  redis.call('HSET', versions, scope, version .. ' ' .. complete)
end
