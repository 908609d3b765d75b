-- Shared by the other scripts: the keys of a view, and adding tasks to them and removing them.
--
--   <view>t:<tenant>:<task>          hash: the fields that events overwrite
--   <view>t:<tenant>:<task>:h        list: history items
--   <view>t:<tenant>:<task>:a        list: artifact items
--   <view>l:<tenant>:<owner>:<agent> sorted set: tasks by the time of their status (us); also with
--                                    the suffixes :s:<state>, :c:<context>, :s:<state>:c:<context>
--   <view>o:<tenant>:<owner>         set: the agents that the owner has tasks with
--   <view>p:<tenant>                 set: the owners that have tasks
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

local function listings(view, tenant, owner, agent, context, state)
  local all = view .. 'l:' .. tenant .. ':' .. owner .. ':' .. agent
  local chosen = all .. ':s:' .. state
  return { all, all .. ':c:' .. context, chosen, chosen .. ':c:' .. context }
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
  local keys = listings(view, tenant, owner, agent, context, state or '')
  for _, listing in ipairs(keys) do
    redis.call('ZREM', listing, task)
  end
  if redis.call('EXISTS', keys[1]) == 0 then
    redis.call('SREM', view .. 'o:' .. tenant .. ':' .. owner, agent)
    if redis.call('EXISTS', view .. 'o:' .. tenant .. ':' .. owner) == 0 then
      redis.call('SREM', view .. 'p:' .. tenant, owner)
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
      add_later(listing, time, task)
    end
  end
end

local function own(view, tenant, owner, agent)
  local owners = view .. 'o:' .. tenant .. ':' .. owner
  if owning[owners] ~= agent then
    owning[owners] = agent
    if redis.call('SADD', owners, agent) == 1 then
      redis.call('SADD', view .. 'p:' .. tenant, owner)
    end
  end
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
    own(view, tenant, owner, agent)
  elseif state ~= '' then
    owner, context = was[2], was[4]
    if was[5] and was[5] ~= state then
      take_off(view, tenant, owner, agent, context, task, was[5])
    end
  end
  redis.call('HSET', key, unpack(fields))
  push(key .. ':h', history)
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
