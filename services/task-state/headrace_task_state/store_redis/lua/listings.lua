-- What the other scripts share: the keys below a view, and how a task leaves them.
--
--   <view>t:<tenant>:<task>          hash: what each event overwrites
--   <view>t:<tenant>:<task>:h        list: history items
--   <view>t:<tenant>:<task>:a        list: artifact items
--   <view>l:<tenant>:<owner>:<agent> sorted set: tasks by the time of their status, microseconds;
--                                    with :s:<state>, :c:<context>, :s:<state>:c:<context> after it
--   <view>o:<tenant>:<owner>         set: the agents that the owner has tasks with
--   <view>p:<tenant>                 set: the owners that have tasks
--   <view>w:<range>                  sorted set: inputs that no worker has taken up and tasks at
--                                    work, by when (ms) the sweep is to look at them
--   <view>i:<range>                  sorted set: tasks that wait for their user, by since when (ms)
--   <view>e:<range>                  sorted set: ended tasks, by when (ms)
--   <view>b:<range>                  sorted set: <tenant>:<task>:<agent> of tasks that have left the
--                                    view, and of which something may be left elsewhere, by when
--                                    (ms) a tombstone took their log's place
--   <view>t:<tenant>:<task>:d        set: tasks that it has asked for and that have not ended
--   <view>d:<range>                  sorted set: tasks that others have asked for and that have not
--                                    ended, by when (ms) their parents are to be looked at
--
-- Tenants, owners, agents, tasks and states hold no colon, and contexts come last.

local function listings(view, tenant, owner, agent, context, state)
  local all = view .. 'l:' .. tenant .. ':' .. owner .. ':' .. agent
  local chosen = all .. ':s:' .. state
  return { all, all .. ':c:' .. context, chosen, chosen .. ':c:' .. context }
end

local function tenant_and_task(name)
  return string.match(name, '^([^:]*):(.*)$')
end

-- Takes a task out of everything; `name` is <tenant>:<task>.
local function forget(view, range, name)
  local key = view .. 't:' .. name
  local tenant, task = tenant_and_task(name)
  local was = redis.call('HMGET', key, 'owner', 'agent', 'context', 'state')
  local owner, agent, context, state = was[1], was[2], was[3], was[4]
  redis.call('ZREM', view .. 'w:' .. range, name)
  redis.call('ZREM', view .. 'i:' .. range, name)
  redis.call('ZREM', view .. 'e:' .. range, name)
  redis.call('ZREM', view .. 'd:' .. range, name)
  redis.call('UNLINK', key, key .. ':h', key .. ':a', key .. ':d')
  if not owner then
    return
  end
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
