-- Returns {positions of the ranges, the owner's tasks that are summaries (<agent>:<task>), contexts of the
-- owner's threads and when they were changed, in the order of these times}.
--
-- KEYS: the projection's number, positions of the ranges, as in page.lua
-- ARGV: prefix of the views' keys, tenant, owner

local view = ARGV[1] .. (redis.call('GET', KEYS[1]) or '0') .. ':'
local owner = ARGV[2] .. ':' .. ARGV[3]
local positions = {}
for i = 2, #KEYS do
  positions[i - 1] = redis.call('HGET', KEYS[i], 'position')
end
return {
  positions,
  redis.call('SMEMBERS', view .. 'z:' .. owner),
  redis.call('ZRANGE', view .. 'x:' .. owner, 0, -1, 'WITHSCORES'),
}
