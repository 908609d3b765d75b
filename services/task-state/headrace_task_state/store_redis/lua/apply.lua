-- Applies a batch of a range's entries to the view, if the caller holds the range's lease and the
-- range has been applied exactly up to where the batch begins. Answers 'applied', 'fenced',
-- 'moved', or that it is applied but for logs under the ids of other agents' tasks: the names of
-- these, each <tenant>:<task>:<agent>.
--
-- KEYS: lease, progress
-- ARGV: token, lease's life (ms), view, range, expected position, number of progress fields, the
--       fields and values; then for each task: name, log, '1' if its log begins here or 'gone' if a
--       tombstone takes its place, state, time of the status (us), when a waiting input is due (ms)
--       or since when the task waits for its user, when it ended (ms), each '' if it does not
--       change; owner, agent, context, and '1' if another task has asked for it, each but the agent
--       '' unless its log begins here; number of hash fields and values, number of history items,
--       number of artifact items, and all of these. Of one that is gone: when (ms) for the time.

local LOOK_AFTER = 30000 -- ms after which the parent of a task at work is looked at
local MOST = 1000 -- values that one RPUSH takes; unpack has its limits

local function push(key, first, count)
  for start = first, first + count - 1, MOST do
    local last = math.min(start + MOST, first + count) - 1
    redis.call('RPUSH', key, unpack(ARGV, start, last))
  end
end

local function take_off(view, tenant, owner, agent, context, task, state)
  for place, listing in ipairs(listings(view, tenant, owner, agent, context, state)) do
    if place > 2 then
      redis.call('ZREM', listing, task)
    end
  end
end

local function list(view, tenant, owner, agent, context, task, state, time)
  for _, listing in ipairs(listings(view, tenant, owner, agent, context, state)) do
    if state == 'HEADRACE_ANSWERED' then
      redis.call('ZREM', listing, task)
    else
      redis.call('ZADD', listing, time, task)
    end
  end
end

-- A task that another one has asked for is looked after until it ends: its parent may go first.
local function mind_parent(view, range, tenant, task, ended)
  local name = tenant .. ':' .. task
  local parent = redis.call('HGET', view .. 't:' .. name, 'parent')
  if not parent then
    return
  end
  local key = view .. 't:' .. tenant .. ':' .. parent
  if ended ~= '' then
    redis.call('ZREM', view .. 'd:' .. range, name)
    redis.call('SREM', key .. ':d', task)
    return
  end
  redis.call('SADD', key .. ':d', task)
  local now = redis.call('TIME')
  redis.call('ZADD', view .. 'd:' .. range, 'NX', tonumber(now[1]) * 1000 + LOOK_AFTER, name)
end

-- When a leg ends or begins, whom the task has asked is looked at.
local function mind_children(view, range, tenant, name, state)
  if state == 'TASK_STATE_WORKING' or state == 'TASK_STATE_AUTH_REQUIRED' then
    return
  end
  for _, child in ipairs(redis.call('SMEMBERS', view .. 't:' .. name .. ':d')) do
    redis.call('ZADD', view .. 'd:' .. range, 'XX', 0, tenant .. ':' .. child)
  end
end

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'fenced'
end
if (redis.call('HGET', KEYS[2], 'position') or '0') ~= ARGV[5] then
  return 'moved'
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local view, range = ARGV[3], ARGV[4]
local foreign = {}
local at = 7 + tonumber(ARGV[6])
redis.call('HSET', KEYS[2], unpack(ARGV, 7, at - 1))

while at <= #ARGV do
  local name, log, begins = ARGV[at], ARGV[at + 1], ARGV[at + 2] == '1'
  local state, time, due, ended = ARGV[at + 3], ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]
  local owner, agent, context = ARGV[at + 7], ARGV[at + 8], ARGV[at + 9]
  local is_asked_for = not begins or ARGV[at + 10] == '1'
  local fields, history = tonumber(ARGV[at + 11]), tonumber(ARGV[at + 12])
  local artifacts = tonumber(ARGV[at + 13])
  local first = at + 14
  local key = view .. 't:' .. name
  local was = redis.call('HMGET', key, 'log', 'agent')
  local known = was[1]
  if known and was[2] ~= agent then
    -- A worker may write below its agents' subjects: under the ids of other agents' tasks, too.
    begins, known = false, false
    foreign[#foreign + 1] = name .. ':' .. agent
  elseif ARGV[at + 2] == 'gone' then
    forget(view, range, name)
    redis.call('ZADD', view .. 'b:' .. range, time, name .. ':' .. agent)
  elseif begins and known then
    -- Somebody emptied the subject and began another log there.
    forget(view, range, name)
  end
  -- A log whose beginning is gone, or that is not the one we know, makes no task.
  if begins or known == log then
    local tenant, task = tenant_and_task(name)
    if begins then
      if redis.call('SADD', view .. 'o:' .. tenant .. ':' .. owner, agent) == 1 then
        redis.call('SADD', view .. 'p:' .. tenant, owner)
      end
    elseif state ~= '' then
      local was = redis.call('HMGET', key, 'owner', 'agent', 'context', 'state')
      owner, agent, context = was[1], was[2], was[3]
      if was[4] and was[4] ~= state then
        take_off(view, tenant, owner, agent, context, task, was[4])
      end
    end
    redis.call('HSET', key, unpack(ARGV, first, first + fields - 1))
    push(key .. ':h', first + fields, history)
    push(key .. ':a', first + fields + history, artifacts)
    if state ~= '' then
      list(view, tenant, owner, agent, context, task, state, time)
      if not begins then
        redis.call('ZREM', view .. 'w:' .. range, name)
        redis.call('ZREM', view .. 'i:' .. range, name)
      end
      if due ~= '' then
        local waits = state == 'TASK_STATE_INPUT_REQUIRED' and 'i:' or 'w:'
        redis.call('ZADD', view .. waits .. range, due, name)
      end
      if ended ~= '' then
        redis.call('ZADD', view .. 'e:' .. range, ended, name)
      end
      if is_asked_for then
        mind_parent(view, range, tenant, task, ended)
      end
      if not begins then
        mind_children(view, range, tenant, name, state)
      end
    end
  end
  at = first + fields + history + artifacts
end
return #foreign == 0 and 'applied' or table.concat(foreign, ' ')
