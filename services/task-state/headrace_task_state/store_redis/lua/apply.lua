-- Applies a batch of a range's entries to the view, if the caller holds the range's lease and the
-- range has been applied exactly up to where the batch begins. Answers 'fenced', 'moved', or the
-- names of logs under the ids of other agents' tasks, which change nothing: each
-- <tenant>:<task>:<agent>.
--
-- KEYS: lease, progress
-- ARGV: token, lease's life (ms), view, range, ms after which the parent of a task that another
--       one has asked for is looked at, expected position, number of progress fields, the
--       fields and values; then for each task a JSON array: tenant, task, log, '1' if its log begins
--       here or 'gone' if a tombstone takes its place, state, time of the status (us), when a
--       waiting input is due (ms) or since when the task waits for its user, when it ended (ms),
--       each '' if it does not change; owner, agent, context, and '1' if another task has asked for
--       it, each but the agent '' unless its log begins here; arrays of hash fields and values, of history items
--       and of artifact items. Of one that is gone: when (ms) for the time, and the agent.

local MOST = 1000 -- values that one RPUSH takes; unpack has its limits

local function push(key, items)
  for first = 1, #items, MOST do
    redis.call('RPUSH', key, unpack(items, first, math.min(first + MOST - 1, #items)))
  end
end

local function take_off(view, tenant, owner, agent, context, task, state)
  local keys = listings(view, tenant, owner, agent, context, state)
  redis.call('ZREM', keys[3], task)
  redis.call('ZREM', keys[4], task)
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
  redis.call('ZADD', view .. 'd:' .. range, 'NX', tonumber(now[1]) * 1000 + tonumber(ARGV[5]), name)
end

-- When a run ends or begins, whom the task has asked is looked at.
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
if (redis.call('HGET', KEYS[2], 'position') or '0') ~= ARGV[6] then
  return 'moved'
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local view, range = ARGV[3], ARGV[4]
local foreign = {}
local first = 8 + tonumber(ARGV[7])
redis.call('HSET', KEYS[2], unpack(ARGV, 8, first - 1))

for at = first, #ARGV do
  local tenant, task, log, kind, state, time, due, ended, owner, agent, context, asked, fields,
    history, artifacts = unpack(cjson.decode(ARGV[at]))
  local begins = kind == '1'
  local name = tenant .. ':' .. task
  local key = view .. 't:' .. name
  local was = redis.call('HMGET', key, 'log', 'owner', 'agent', 'context', 'state')
  local known = was[1]
  if known and was[3] ~= agent then
    -- A worker may write below its agents' subjects: under the ids of other agents' tasks, too.
    begins, known = false, false
    foreign[#foreign + 1] = name .. ':' .. agent
  elseif kind == 'gone' then
    forget(view, range, name)
    redis.call('ZADD', view .. 'b:' .. range, time, name .. ':' .. agent)
  elseif begins and known then
    -- Somebody emptied the subject and began another log there.
    forget(view, range, name)
  end
  -- A log whose beginning is gone, or that is not the one we know, makes no task.
  if begins or known == log then
    if begins then
      if redis.call('SADD', view .. 'o:' .. tenant .. ':' .. owner, agent) == 1 then
        redis.call('SADD', view .. 'p:' .. tenant, owner)
      end
    elseif state ~= '' then
      owner, context = was[2], was[4]
      if was[5] and was[5] ~= state then
        take_off(view, tenant, owner, agent, context, task, was[5])
      end
    end
    redis.call('HSET', key, unpack(fields))
    push(key .. ':h', history)
    push(key .. ':a', artifacts)
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
      if not begins or asked == '1' then
        mind_parent(view, range, tenant, task, ended)
      end
      if not begins then
        mind_children(view, range, tenant, name, state)
      end
    end
  end
end
return foreign
