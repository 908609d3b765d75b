-- Releases the leases that the caller still holds.
--
-- KEYS: leases
-- ARGV: their tokens

for i, lease in ipairs(KEYS) do
  if redis.call('GET', lease) == ARGV[i] then
    redis.call('DEL', lease)
  end
end
return #KEYS
