-- Takes the lease of a range if it is free. Returns the era, or nothing.
--
-- KEYS: lease, era
-- ARGV: token, lease duration (ms)

if redis.call('EXISTS', KEYS[1]) == 1 then
  return false
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('GET', KEYS[2]) or '0'
