-- Takes the lease of a range if it is free. Returns the projection's number, or nothing.
--
-- KEYS: lease, the projection's number
-- ARGV: token, lease duration (ms)

if redis.call('EXISTS', KEYS[1]) == 1 then
  return false
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('GET', KEYS[2]) or '0'
