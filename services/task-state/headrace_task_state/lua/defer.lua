-- Puts off looking again at a name in a sorted set, if it is still there.
--
-- KEYS: lease, sorted set
-- ARGV: token, name, when it is due (ms)

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'fenced'
end
redis.call('ZADD', KEYS[2], 'XX', ARGV[3], ARGV[2])
return 'applied'
