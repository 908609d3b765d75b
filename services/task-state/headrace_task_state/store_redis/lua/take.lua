-- Takes the lease of a range if it is free. Returns {token, era}, or nothing.
--
-- KEYS: lease, epoch, era
-- ARGV: replica, lease duration (ms)

if redis.call('EXISTS', KEYS[1]) == 1 then
  return false
end
local token = ARGV[1] .. '.' .. redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], token, 'PX', ARGV[2])
return { token, redis.call('GET', KEYS[3]) or '0' }
