-- Shared by the scripts that change tasks: the keys of a view, and adding tasks to them and removing them.
--
--   <view>t:<tenant>:<task>          hash: the fields that events overwrite, the `time` of the status, and
--                                    `marks`: the positions of the history items that readers of the
--                                    last messages need, too. Of a short task that has ended a string
--                                    with everything (`packed.lua`)
--   <view>t:<tenant>:<task>:h        list: history items
--   <view>t:<tenant>:<task>:a        list: artifact items
--   <view>l:<tenant>:<owner>:<agent> sorted set: the owner's tasks, by state and time (`members.lua`).
--                                    Without an owner: the tasks of all owners
--   <view>c:<tenant>:<agent>:<context> sorted set: the tasks in the context, by owner, state and time
--   <view>o:<tenant>:<owner>         set: the agents that the owner has tasks with; without an owner:
--                                    those of all owners
--   <view>u:<tenant>                 hash: the number of each owner with tasks, and as '' the highest
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
--   <view>f:<range>                  sorted set: ended tasks whose logs go on behind their end, by the newest
--                                    stream sequence there
--   <view>t:<tenant>:<task>:d        set: its child tasks that have not ended
--   <view>d:<range>                  sorted set: child tasks that have not ended, by when (ms) their
--                                    parents are checked
--
-- Tenants, owners, agents, tasks and states contain no colon, and contexts and versions come last.

-- What is remembered of a task while it changes.
local KEPT = { 'log', 'owner', 'agent', 'context', 'state', 'time', 'version', 'parent', 'summary', 'sequence' }

-- Returns these fields of a task as a table; nil: there is no task.
local function standing(key)
  local kind = type_of(key)
  if kind == 'none' then
    return nil
  elseif kind == 'string' then
    return fields_in(redis.call('GET', key))
  end
  local found = {}
  for i, value in ipairs(redis.call('HMGET', key, unpack(KEPT))) do
    found[KEPT[i]] = value or nil
  end
  return found
end

-- Owners with tasks have numbers, which take less memory than their names.
local numbers = {}

local function number_of(view, tenant, owner)
  local key = view .. 'u:' .. tenant
  local name = key .. ':' .. owner
  if not numbers[name] then
    local number = redis.call('HGET', key, owner)
    if not number then
      number = redis.call('HINCRBY', key, '', 1)
      redis.call('HSET', key, owner, number)
    end
    numbers[name] = packed_number(number)
  end
  return numbers[name]
end

local function free_number(view, tenant, owner)
  local key = view .. 'u:' .. tenant
  numbers[key .. ':' .. owner] = nil
  redis.call('HDEL', key, owner)
  if redis.call('HLEN', key) == 1 then
    redis.call('DEL', key)
  end
end

local function list_of(view, tenant, owner, agent)
  return view .. 'l:' .. tenant .. ':' .. owner .. ':' .. agent
end

local function context_list(view, tenant, agent, context)
  return view .. 'c:' .. tenant .. ':' .. agent .. ':' .. context
end

-- Calls `use` with each list of a task and its member there. `member` is the one in lists of owners; '':
-- the task is on no list.
local function each_listing(view, tenant, about, member, use)
  if member ~= '' then
    use(list_of(view, tenant, about.owner, about.agent), member)
    use(list_of(view, tenant, '', about.agent), member)
    local number = number_of(view, tenant, about.owner)
    use(context_list(view, tenant, about.agent, about.context), number .. member)
  end
end

local function take_off(key, member)
  redis.call('ZREM', key, member)
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

-- Removes a task from all keys; `name` is <tenant>:<task>, `was` what `standing` returned. Its set of
-- child tasks can be kept.
local function forget(view, range, name, was, keeps_children)
  local key = view .. 't:' .. name
  local tenant, task = tenant_and_task(name)
  for _, due in ipairs({ 'w:', 'i:', 'e:', 'd:', 's:' }) do
    redis.call('ZREM', view .. due .. range, name)
  end
  redis.call('UNLINK', key, key .. ':h', key .. ':a')
  if not keeps_children then
    redis.call('UNLINK', key .. ':d')
  end
  if not was then
    return
  end
  leave_thread(view, tenant, was, task)
  close(view, was.agent, was.version, name)
  each_listing(view, tenant, was, member_of(task, was.state, was.time), take_off)
  for _, owner in ipairs({ was.owner, '' }) do
    local agents = view .. 'o:' .. tenant .. ':' .. owner
    if redis.call('EXISTS', list_of(view, tenant, owner, was.agent)) == 0 then
      redis.call('SREM', agents, was.agent)
      if owner ~= '' and redis.call('EXISTS', agents) == 0 then
        free_number(view, tenant, owner)
      end
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
    if tag == META or tag == DROP then
      marks = marks .. (redis.call('LLEN', key .. ':h') + i - 1) .. ','
    end
  end
  if marks ~= '' then
    redis.call('HSET', key, 'marks', (redis.call('HGET', key, 'marks') or '') .. marks)
  end
  push(key .. ':h', items)
end

local function list(key, member)
  add_later(key, 0, member)
end

local function own(view, tenant, owner, agent)
  local agents = view .. 'o:' .. tenant .. ':' .. owner
  if owning[agents] ~= agent then
    owning[agents] = agent
    redis.call('SADD', agents, agent)
    redis.call('SADD', view .. 'o:' .. tenant .. ':', agent)
  end
end

-- Adds tasks that begin and end in a batch and are new, from the argument at `at` on: with one command
-- per key instead of several per task. Returns the place of the argument after them; nil: nothing was added,
-- because one of them is there already. The arguments:
--   number of tasks, key and text of each;
--   number of sorted sets, and of each: key, number of its scores and members, these;
--   number of owners with an agent, and of each: tenant, owner, agent, number of contexts, and of each: key,
--   number of its members, these, to which the owner's number is added;
--   number of tasks with usage, and of each: tenant, task, owner, agent, log, JSON array of records;
--   JSON array of the rows in threads: tenant, owner, context, task, row;
--   number of owners with summaries, and of each: tenant, owner, number of members, these.
local function add_together(view, usage, at)
  local function next_word()
    at = at + 1
    return ARGV[at - 1]
  end
  local function next_words()
    local first = at + 1
    at = first + tonumber(ARGV[at])
    return first, at - 1
  end
  local tasks = tonumber(next_word())
  if tasks > 0 and redis.call('MSETNX', unpack(ARGV, at, at + 2 * tasks - 1)) == 0 then
    return nil
  end
  at = at + 2 * tasks
  for _ = 1, tonumber(next_word()) do
    local key = next_word()
    redis.call('ZADD', key, unpack(ARGV, next_words()))
  end
  for _ = 1, tonumber(next_word()) do
    local tenant, owner = next_word(), next_word()
    own(view, tenant, owner, next_word())
    local number = number_of(view, tenant, owner)
    for _ = 1, tonumber(next_word()) do
      local key, members = next_word(), {}
      local first, last = next_words()
      for member = first, last do
        members[#members + 1] = 0
        members[#members + 1] = number .. ARGV[member]
      end
      redis.call('ZADD', key, unpack(members))
    end
  end
  for _ = 1, tonumber(next_word()) do
    local tenant, task, owner, agent, log, records = unpack(ARGV, at, at + 5)
    at = at + 6
    count_usage(usage, tenant, task, owner, agent, log, '', 0, cjson.decode(records))
  end
  for _, one in ipairs(cjson.decode(next_word())) do
    put_row(view, one[1], one[2], one[3], one[4], one[5], true)
  end
  for _ = 1, tonumber(next_word()) do
    local tenant, owner = next_word(), next_word()
    redis.call('SADD', view .. 'z:' .. tenant .. ':' .. owner, unpack(ARGV, next_words()))
  end
  return at
end

local function open(view, agent, version, due, name)
  redis.call('SADD', view .. 'n:' .. agent, version or '')
  add_later(view .. 'v:' .. agent .. ':' .. (version or ''), due, name)
end

-- A child task is registered until it ends, because its parent may end or disappear first.
local function mind_parent(view, range, tenant, task, parent, ended, look_after)
  if not parent then
    return
  end
  local name = tenant .. ':' .. task
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
  if AT_WORK[state] then
    return
  end
  for _, child in ipairs(redis.call('SMEMBERS', view .. 't:' .. name .. ':d')) do
    redis.call('ZADD', view .. 'd:' .. range, 'XX', 0, tenant .. ':' .. child)
  end
end

-- Makes a string of a task that has ended, if it is short.
local function pack_task(key)
  if redis.call('LLEN', key .. ':h') > MOST_ITEMS or redis.call('LLEN', key .. ':a') > MOST_ITEMS then
    return
  end
  local history = redis.call('LRANGE', key .. ':h', 0, -1)
  local artifacts = redis.call('LRANGE', key .. ':a', 0, -1)
  local text = text_of(as_table(redis.call('HGETALL', key)), history, artifacts)
  if text then
    redis.call('SET', key, text)
    redis.call('UNLINK', key .. ':h', key .. ':a')
  end
end

-- Applies a change to the thread of a task. `row`: empty if it changes nothing there, else as for `change_row`, and
-- whether the output is shown; 'summary' alone for a summary.
local function join_thread(view, tenant, about, task, begins, row, output, state)
  if row[1] == 'summary' then
    note_summary(view, tenant, about, task)
  elseif state ~= '' and not LETTERS[state] then
    if not begins then
      leave_thread(view, tenant, about, task)
    end
  elseif row[1] and not about.parent and not about.summary then
    change_row(view, tenant, about, task, row, output)
  end
end

-- Returns the stream sequence of the newest entry in a change.
local function sequence_in(fields, text)
  return tonumber((text ~= '' and fields_in(text) or as_table(fields)).sequence)
end

-- Applies `change`, the array that `store_redis/encoding.py` builds, to one task. `member` is its new one in
-- lists ('': none), `text` the whole task if it begins and ends here and is short, else ''. Returns 'foreign' if
-- the log is under the id of another agent's task, and 'behind' if the task has ended before these
-- entries: then nothing changes in it.
local function apply_change(view, range, look_after, usage, change, member, text)
  local tenant, task, log, kind, state, time, due, ended, owner, agent, context, parent, fields,
    history, artifacts, replaces, urgency, records, root, copied, row = unpack(change)
  local begins = kind == '1'
  local name = tenant .. ':' .. task
  local key = view .. 't:' .. name
  local is_new = text ~= '' and redis.call('SET', key, text, 'NX')
  local was
  if not is_new then
    was = standing(key)
  end
  if was or not begins then
    add_now()
  end
  if was and was.agent ~= agent and was.agent ~= replaces then
    -- A worker can write to all subjects of its agents, also with the ids of other agents' tasks.
    return 'foreign'
  elseif kind == 'gone' then
    forget(view, range, name, was)
    redis.call('ZREM', view .. 'f:' .. range, name)
    forget_ledger(usage, tenant, task)
    redis.call('ZADD', view .. 'b:' .. range, time, name .. ':' .. agent)
  elseif was and was.agent == agent and FINISHED[was.state]
      and sequence_in(fields, text) > tonumber(was.sequence) then
    -- Nothing follows an end, but a worker can write there.
    redis.call('ZADD', view .. 'f:' .. range, sequence_in(fields, text), name)
    return 'behind'
  elseif begins and was then
    -- The log is read again, or its subject was purged and a new log was started on it.
    forget(view, range, name, was, was.log == log)
  end
  -- A log without its beginning, or with another id than the known one, gives no task; a task that has
  -- ended has these entries.
  if not (begins or (was and was.log == log and not FINISHED[was.state])) then
    return nil
  end
  -- What a summary leaves out is counted with the whole log, and so is what follows it until then.
  if begins or not was.summary then
    count_usage(usage, tenant, task, begins and owner or was.owner, agent, log, root, copied, records)
  end
  local about = was
  if begins then
    own(view, tenant, owner, agent)
    about = { owner = owner, agent = agent, context = context, parent = parent ~= '' and parent or nil }
  end
  local output = ''
  if text == '' then
    redis.call('HSET', key, unpack(fields))
    push_history(key, history)
    push(key .. ':a', artifacts)
    if row[6] then
      output = output_text(key .. ':a', tonumber(redis.call('HGET', key, 'run') or 0))
    end
    if ended ~= '' then
      pack_task(key)
    end
  elseif not is_new then
    redis.call('SET', key, text)
  end
  if urgency ~= '' then
    add_later(view .. 's:' .. range, urgency, name)
  end
  join_thread(view, tenant, about, task, begins, row, output, state)
  if state == '' then
    return nil
  end
  local now = as_table(fields)
  if not begins then
    each_listing(view, tenant, was, member_of(task, was.state, was.time), take_off)
    redis.call('ZREM', view .. 'w:' .. range, name)
    redis.call('ZREM', view .. 'i:' .. range, name)
    close(view, agent, was.version, name)
  end
  each_listing(view, tenant, about, member, list)
  if due ~= '' then
    add_later(view .. (state == INPUT_REQUIRED and 'i:' or 'w:') .. range, due, name)
    open(view, agent, now.version or about.version, due, name)
  end
  if ended ~= '' then
    add_later(view .. 'e:' .. range, ended, name)
  end
  mind_parent(view, range, tenant, task, now.parent or about.parent, ended, look_after)
  if not begins then
    mind_children(view, range, tenant, name, state)
  end
  return nil
end
