-- Returns for each context the thread's rows: {what they have in common, first row, last row, number, state of
-- the last row's task}; nothing for a context without rows.
--
-- KEYS: the projection's number
-- ARGV: prefix of the views' keys, tenant, owner, contexts

local view = ARGV[1] .. (redis.call('GET', KEYS[1]) or '0') .. ':'

local function state_of(task)
  local key = view .. 't:' .. ARGV[2] .. ':' .. task
  if type_of(key) == 'string' then
    return fields_in(redis.call('GET', key)).state
  end
  return redis.call('HGET', key, 'state')
end

local found = {}
for i = 4, #ARGV do
  local key = view .. 'y:' .. ARGV[2] .. ':' .. ARGV[3] .. ':' .. ARGV[i]
  local text = redis.call('HGET', key, '')
  found[i - 3] = {}
  if text then
    local shared = cjson.decode(text)
    local rows = redis.call('HMGET', key, shared[1], shared[3])
    found[i - 3] = { text, rows[1], rows[2], redis.call('HLEN', key) - 1, state_of(shared[3]) }
  end
end
return found
