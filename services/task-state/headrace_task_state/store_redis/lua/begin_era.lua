-- Leaves the view for a new, empty one, if the caller holds the lease. No other writer can go on:
-- all leases and positions are gone. Answers the era that was left, or nothing.
--
-- KEYS: the caller's lease, era, then everybody's leases and positions
-- ARGV: token

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return false
end
for i = 3, #KEYS do
  redis.call('DEL', KEYS[i])
end
return tostring(redis.call('INCR', KEYS[2]) - 1)
