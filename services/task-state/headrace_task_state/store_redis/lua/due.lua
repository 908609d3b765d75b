-- Returns the numbers of the lists on which a name is due, from 1.
--
-- KEYS: lists
-- ARGV: until when (ms)

local found = {}
for i, key in ipairs(KEYS) do
  if #redis.call('ZRANGE', key, '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, 1) > 0 then
    found[#found + 1] = i
  end
end
return found
