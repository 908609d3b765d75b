-- Returns {hash, history items, artifact items} of one task, read in one step. Of the history, what the
-- last messages that are asked for need.
--
-- KEYS: era
-- ARGV: prefix of the views' keys, name (<tenant>:<task>), number of last messages ('': all)

local key = ARGV[1] .. (redis.call('GET', KEYS[1]) or '0') .. ':t:' .. ARGV[2]
return {
  redis.call('HGETALL', key),
  history_of(key, ARGV[3]),
  redis.call('LRANGE', key .. ':a', 0, -1),
}
