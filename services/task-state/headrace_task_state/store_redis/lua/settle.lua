-- Removes a task from those whose logs go on behind their end, unless more has come meanwhile.
--
-- KEYS: lease, sorted set
-- ARGV: token, name, stream sequence up to which nothing is left to do

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'fenced'
end
local newest = redis.call('ZSCORE', KEYS[2], ARGV[2])
if newest and tonumber(newest) <= tonumber(ARGV[3]) then
  redis.call('ZREM', KEYS[2], ARGV[2])
end
return 'applied'
