-- Returns {hash, history items, artifact items} of one task, or {text}, read in one step. Of the history,
-- what the last messages that are asked for need.
--
-- KEYS: the projection's number
-- ARGV: prefix of the views' keys, name (<tenant>:<task>), number of last messages ('': all)

local key = ARGV[1] .. (redis.call('GET', KEYS[1]) or '0') .. ':t:' .. ARGV[2]
return { task_of(key, ARGV[3], true) }
