-- Shared by the other scripts: the keys of a view, and adding tasks to them and removing them.
--
--   <view>t:<tenant>:<task>          hash: the fields that events overwrite, and `marks`: the positions
--                                    of the history items that readers of the last messages need, too
--   <view>t:<tenant>:<task>:h        list: history items
--   <view>t:<tenant>:<task>:a        list: artifact items
--   <view>l:<tenant>:<owner>:<agent> sorted set: tasks by the time of their status (us); also with
--                                    the suffixes :s:<state>, :c:<context>, :s:<state>:c:<context>.
--                                    Without an owner: the tasks of all owners, not by context
--   <view>o:<tenant>:<owner>         set: the agents that the owner has tasks with; without an owner:
--                                    those of all owners
--   <view>k:<tenant>:<agent>:<context> set: the owners of tasks in the context
--   <view>w:<range>                  sorted set: inputs that no worker has started and working
--                                    tasks, by when (ms) the sweep checks them
--   <view>i:<range>                  sorted set: tasks that wait for their user, by the start of
--                                    the wait (ms)
--   <view>v:<agent>:<version>        sorted set: the tasks of w and i that are pinned to the version
--   <view>n:<agent>                  set: the versions that open tasks are pinned to
--   <view>e:<range>                  sorted set: ended tasks, by their end (ms)
--   <view>b:<range>                  sorted set: <tenant>:<task>:<agent> of tasks that were deleted
--                                    from the view but may have data elsewhere, by when (ms) a
--                                    tombstone replaced their log
--   <view>s:<range>                  sorted set: summaries to complete from their logs, most urgent
--                                    (smallest score) first
--   <view>t:<tenant>:<task>:d        set: its child tasks that have not ended
--   <view>d:<range>                  sorted set: child tasks that have not ended, by when (ms) their
--                                    parents are checked
--
-- Tenants, owners, agents, tasks and states contain no colon, and contexts and versions come last.

-- Returns the lists of one task: those of all states, and those of its state.
local function listings(view, tenant, owner, agent, context, state)
  local of_owner = view .. 'l:' .. tenant .. ':' .. owner .. ':' .. agent
  local of_all = view .. 'l:' .. tenant .. '::' .. agent
  local of_state, within = ':s:' .. state, ':c:' .. context
  return { of_owner, of_all, of_owner .. within },
    { of_owner .. of_state, of_all .. of_state, of_owner .. of_state .. within }
end

local function context_owners(view, tenant, agent, context)
  return view .. 'k:' .. tenant .. ':' .. agent .. ':' .. context
end

local function tenant_and_task(name)
  return string.match(name, '^([^:]*):(.*)$')
end

-- Removes a task from those that are open with a version; false: it is pinned to none.
local function close(view, agent, version, name)
  local key = view .. 'v:' .. agent .. ':' .. (version or '')
  if redis.call('ZREM', key, name) == 1 and redis.call('EXISTS', key) == 0 then
    redis.call('SREM', view .. 'n:' .. agent, version or '')
  end
end

-- Removes a task from all keys; `name` is <tenant>:<task>. Its set of child tasks can be kept.
local function forget(view, range, name, keeps_children)
  local key = view .. 't:' .. name
  local tenant, task = tenant_and_task(name)
  local was = redis.call('HMGET', key, 'owner', 'agent', 'context', 'state', 'version')
  local owner, agent, context, state = was[1], was[2], was[3], was[4]
  redis.call('ZREM', view .. 'w:' .. range, name)
  redis.call('ZREM', view .. 'i:' .. range, name)
  redis.call('ZREM', view .. 'e:' .. range, name)
  redis.call('ZREM', view .. 'd:' .. range, name)
  redis.call('ZREM', view .. 's:' .. range, name)
  redis.call('UNLINK', key, key .. ':h', key .. ':a')
  if not keeps_children then
    redis.call('UNLINK', key .. ':d')
  end
  if not owner then
    return
  end
  close(view, agent, was[5], name)
  local of_any, of_state = listings(view, tenant, owner, agent, context, state or '')
  for i = 1, #of_any do
    redis.call('ZREM', of_any[i], task)
    redis.call('ZREM', of_state[i], task)
  end
  local gone = { { of_any[1], view .. 'o:' .. tenant .. ':' .. owner, agent },
    { of_any[2], view .. 'o:' .. tenant .. ':', agent },
    { of_any[3], context_owners(view, tenant, agent, context), owner } }
  for _, one in ipairs(gone) do
    if redis.call('EXISTS', one[1]) == 0 then
      redis.call('SREM', one[2], one[3])
    end
  end
end

local MOST = 1000 -- maximum values in one command: Lua's unpack is limited

-- Consecutive new tasks often belong to the same sorted sets and owners. Their additions are
-- collected and sent with one command per key, before anything reads these keys.
local added, owning = {}, {}

local function add_later(key, score, member)
  local some = added[key]
  if not some then
    some = {}
    added[key] = some
  end
  some[#some + 1] = score
  some[#some + 1] = member
end

local function add_now()
  for key, some in pairs(added) do
    for first = 1, #some, MOST do
      redis.call('ZADD', key, unpack(some, first, math.min(first + MOST - 1, #some)))
    end
  end
  added, owning = {}, {}
end

local function push(key, items)
  for first = 1, #items, MOST do
    redis.call('RPUSH', key, unpack(items, first, math.min(first + MOST - 1, #items)))
  end
end

-- Appends to a task's history, and remembers the positions of metadata and of what discards metadata:
-- `history.lua` returns these with the last messages.
local function push_history(key, items)
  local marks = ''
  for i, item in ipairs(items) do
    local tag = string.match(item, '^%[%d+,"(%a+)"')
    if tag == 'meta' or tag == 'drop' then
      marks = marks .. (redis.call('LLEN', key .. ':h') + i - 1) .. ','
    end
  end
  if marks ~= '' then
    redis.call('HSET', key, 'marks', (redis.call('HGET', key, 'marks') or '') .. marks)
  end
  push(key .. ':h', items)
end

local function take_off(view, tenant, owner, agent, context, task, state)
  local _, of_state = listings(view, tenant, owner, agent, context, state)
  for _, listing in ipairs(of_state) do
    redis.call('ZREM', listing, task)
  end
end

local function list(view, tenant, owner, agent, context, task, state, time)
  for _, some in ipairs({ listings(view, tenant, owner, agent, context, state) }) do
    for _, listing in ipairs(some) do
      if state == 'HEADRACE_ANSWERED' then
        redis.call('ZREM', listing, task)
      else
        add_later(listing, time, task)
      end
    end
  end
end

local function own(view, tenant, owner, agent, context)
  local agents = view .. 'o:' .. tenant .. ':' .. owner
  if owning[agents] ~= agent then
    owning[agents] = agent
    redis.call('SADD', agents, agent)
    redis.call('SADD', view .. 'o:' .. tenant .. ':', agent)
  end
  redis.call('SADD', context_owners(view, tenant, agent, context), owner)
end

local function open(view, agent, version, due, name)
  redis.call('SADD', view .. 'n:' .. agent, version or '')
  add_later(view .. 'v:' .. agent .. ':' .. (version or ''), due, name)
end

-- A child task is registered until it ends, because its parent may end or disappear first.
local function mind_parent(view, range, tenant, task, ended, look_after)
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
  redis.call('ZADD', view .. 'd:' .. range, 'NX', tonumber(now[1]) * 1000 + tonumber(look_after), name)
end

-- When a run of a task ends or begins, its child tasks become due for a check.
local function mind_children(view, range, tenant, name, state)
  if state == 'TASK_STATE_WORKING' or state == 'TASK_STATE_AUTH_REQUIRED' then
    return
  end
  for _, child in ipairs(redis.call('SMEMBERS', view .. 't:' .. name .. ':d')) do
    redis.call('ZADD', view .. 'd:' .. range, 'XX', 0, tenant .. ':' .. child)
  end
end

-- Applies `change`, the array that `store_redis/store.py` builds, to one task. If the log is under
-- the id of another agent's task, changes nothing and returns its name: <tenant>:<task>:<agent>.
local function apply_change(view, range, look_after, usage, change)
  local tenant, task, log, kind, state, time, due, ended, owner, agent, context, asked, fields,
    history, artifacts, replaces, urgency, records, root, copied = unpack(change)
  local begins = kind == '1'
  local name = tenant .. ':' .. task
  local key = view .. 't:' .. name
  local was = redis.call('HMGET', key, 'log', 'owner', 'agent', 'context', 'state', 'summary', 'version')
  local known = was[1]
  if known or not begins then
    add_now()
  end
  if known and was[3] ~= agent and was[3] ~= replaces then
    -- A worker can write to all subjects of its agents, also with the ids of other agents' tasks.
    return name .. ':' .. agent
  elseif kind == 'gone' then
    forget(view, range, name)
    forget_ledger(usage, tenant, task)
    redis.call('ZADD', view .. 'b:' .. range, time, name .. ':' .. agent)
  elseif begins and known then
    -- The log is read again, or its subject was purged and a new log was started on it.
    forget(view, range, name, known == log)
  end
  -- A log without its beginning, or with another id than the known one, gives no task.
  if not (begins or known == log) then
    return nil
  end
  -- What a summary leaves out is counted with the whole log, and so is what follows it until then.
  if begins or not was[6] then
    count_usage(usage, tenant, task, begins and owner or was[2], agent, log, root, copied, records)
  end
  if begins then
    own(view, tenant, owner, agent, context)
  elseif state ~= '' then
    owner, context = was[2], was[4]
    if was[5] and was[5] ~= state then
      take_off(view, tenant, owner, agent, context, task, was[5])
    end
  end
  redis.call('HSET', key, unpack(fields))
  push_history(key, history)
  push(key .. ':a', artifacts)
  if urgency ~= '' then
    add_later(view .. 's:' .. range, urgency, name)
  end
  if state == '' then
    return nil
  end
  list(view, tenant, owner, agent, context, task, state, time)
  if not begins then
    redis.call('ZREM', view .. 'w:' .. range, name)
    redis.call('ZREM', view .. 'i:' .. range, name)
    close(view, agent, was[7], name)
  end
  if due ~= '' then
    local waits = state == 'TASK_STATE_INPUT_REQUIRED' and 'i:' or 'w:'
    add_later(view .. waits .. range, due, name)
    open(view, agent, redis.call('HGET', key, 'version'), due, name)
  end
  if ended ~= '' then
    add_later(view .. 'e:' .. range, ended, name)
  end
  if not begins or asked == '1' then
    mind_parent(view, range, tenant, task, ended, look_after)
  end
  if not begins then
    mind_children(view, range, tenant, name, state)
  end
  return nil
end
