-- Changes when names in a sorted set are due, if they are still there, or removes them.
--
-- KEYS: lease, sorted set
-- ARGV: token, then of each name: the name, when it is due (ms; '': never)

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'fenced'
end
for at = 2, #ARGV, 2 do
  if ARGV[at + 1] == '' then
    redis.call('ZREM', KEYS[2], ARGV[at])
  else
    redis.call('ZADD', KEYS[2], 'XX', ARGV[at + 1], ARGV[at])
  end
end
return 'applied'
