-- Translation memories. KEYS[1] is the prefix of all, and ARGV[1] a scope, OWNER/SOURCE/TARGET. The keys:
--   pairs:SCOPE      a hash: a text's id to its pair
--   sizes:SCOPE      a hash: a text's id to the bytes that the pair counts as
--   changes:SCOPE    a sorted set: a text's id to the version of its last change, also if it was removed
--   versions         a hash: SCOPE to "version complete_since", from which version on all removals are known
--   totals           a hash: `pairs` and `bytes` of all scopes
-- Versions are times, so that none comes twice even if the server has lost what it held.
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
