-- Takes a task past retention out of the view, and remembers for a while whose it was.
--
-- KEYS: lease
-- ARGV: token, view, range, name, how long to remember (s)

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'fenced'
end
local view, range, name = ARGV[2], ARGV[3], ARGV[4]
local owner = redis.call('HGET', view .. 't:' .. name, 'owner')
forget(view, range, name)
if owner then
  redis.call('SET', view .. 'g:' .. name, owner, 'EX', ARGV[5])
end
return 'applied'
