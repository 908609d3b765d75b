-- Puts off asking again for an input that nobody has taken up, if it still waits.
--
-- KEYS: lease, waiting
-- ARGV: token, name, when it is due (ms)

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'fenced'
end
redis.call('ZADD', KEYS[2], 'XX', ARGV[3], ARGV[2])
return 'applied'
