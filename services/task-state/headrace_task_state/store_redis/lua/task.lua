-- Returns {hash, history items, artifact items} of one task, read in one step.
--
-- KEYS: era
-- ARGV: prefix of the views' keys, name (<tenant>:<task>)

local key = ARGV[1] .. (redis.call('GET', KEYS[1]) or '0') .. ':t:' .. ARGV[2]
return {
  redis.call('HGETALL', key),
  redis.call('LRANGE', key .. ':h', 0, -1),
  redis.call('LRANGE', key .. ':a', 0, -1),
}
