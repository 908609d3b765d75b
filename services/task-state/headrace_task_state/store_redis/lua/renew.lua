-- Registers a replica as live and renews its leases. Returns {live replicas, ranges whose lease it
-- has lost, ranges without a lease}.
--
-- KEYS: replicas
-- ARGV: replica, lease duration (ms), prefix of the leases' keys, number of ranges held, each with its
--       token, then all ranges

local now = redis.call('TIME')
now = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
local life, leases, held = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
redis.call('ZADD', KEYS[1], string.format('%.0f', now + life), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now))

local lost, free = {}, {}
for i = 5, 4 + 2 * held, 2 do
  if redis.call('GET', leases .. ARGV[i]) == ARGV[i + 1] then
    redis.call('PEXPIRE', leases .. ARGV[i], life)
  else
    lost[#lost + 1] = ARGV[i]
  end
end
for i = 5 + 2 * held, #ARGV do
  if redis.call('EXISTS', leases .. ARGV[i]) == 0 then
    free[#free + 1] = ARGV[i]
  end
end
return { redis.call('ZRANGE', KEYS[1], 0, -1), lost, free }
