-- Changes when a name in a sorted set is due, if it is still there, or removes it.
--
-- KEYS: lease, sorted set
-- ARGV: token, name, when it is due (ms; '': never)

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'fenced'
end
if ARGV[3] == '' then
  redis.call('ZREM', KEYS[2], ARGV[2])
else
  redis.call('ZADD', KEYS[2], 'XX', ARGV[3], ARGV[2])
end
return 'applied'
