-- Replaces the view by a new, empty one, if the caller holds the lease. All leases and positions are
-- deleted, so no other writer can continue. Returns the previous one's number, or nothing.
--
-- KEYS: the caller's lease, the projection's number, then the leases and positions of all ranges
-- ARGV: token

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return false
end
for i = 3, #KEYS do
  redis.call('DEL', KEYS[i])
end
return tostring(redis.call('INCR', KEYS[2]) - 1)
