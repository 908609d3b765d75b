-- Returns the hash of a task (empty: there is none) or its text.
--
-- KEYS: the task's

return type_of(KEYS[1]) == 'string' and redis.call('GET', KEYS[1]) or redis.call('HGETALL', KEYS[1])
