-- Returns of each task its hash (empty: there is none) or its text.
--
-- KEYS: the tasks'

local found = {}
for at, key in ipairs(KEYS) do
  found[at] = type_of(key) == 'string' and redis.call('GET', key) or redis.call('HGETALL', key)
end
return found
