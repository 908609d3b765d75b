-- Shared by the scripts that change tasks: threads, and the rows of their tasks (`thread_rows.py`).
--
--   <view>x:<tenant>:<owner>            sorted set: the owner's contexts with rows, by when (us) a run began
--                                       or ended there
--   <view>y:<tenant>:<owner>:<context>  hash: the row of each task as a JSON array: agent, created, changed,
--                                       answered, title, text; times are strings. As '' what the rows have
--                                       in common: first task and its time, last changed task and its time,
--                                       the highest time of an answer, the number of rows by agent
--   <view>z:<tenant>:<owner>            set: <agent>:<task> of the owner's tasks that are summaries

local READ_AT_ONCE = 64 -- artifact items

-- Returns at most that many bytes of UTF-8, and no part of a character.
local function cut(text, most)
  if #text <= most then
    return text
  end
  while most > 0 and bit.band(string.byte(text, most + 1), 0xC0) == 0x80 do
    most = most - 1
  end
  return string.sub(text, 1, most)
end

local function shorten(text)
  local line = string.gsub(cut(text, READ_BYTES), '%s+', ' ')
  return cut(string.match(line, '^ ?(.-) ?$'), LONGEST_TEXT)
end

local function texts_in(artifact)
  local texts = {}
  for _, part in ipairs(type(artifact.parts) == 'table' and artifact.parts or {}) do
    if part.text and (part.filename == nil or part.filename == cjson.null or part.filename == '') then
      texts[#texts + 1] = part.text
    end
  end
  return table.concat(texts)
end

-- Returns the beginning of the last artifact with text, of those of the run from `since` on.
local function output_text(key, since)
  local name, found, following, kept = nil, '', '', math.huge
  local last = redis.call('LLEN', key) - 1
  while last >= 0 do
    local first = math.max(last - READ_AT_ONCE + 1, 0)
    local items = redis.call('LRANGE', key, first, last)
    for i = #items, 1, -1 do
      local item = cjson.decode(items[i])
      local generation, tag, value = item[1], item[2], item[3]
      if generation < since then
        return shorten(found)
      elseif tag == DROP then
        kept = math.min(kept, value)
      elseif generation <= kept and tag == TEXTS then
        following = value .. following
      elseif generation <= kept then
        local text = texts_in(value) .. following
        following = ''
        if not name and text ~= '' then
          name = value.artifactId
        end
        if name == value.artifactId then
          found = text .. found
          if tag == NEW then
            return shorten(found)
          end
        end
      end
    end
    last = first - 1
  end
  return shorten(found)
end

local function thread_key(view, tenant, owner, context)
  return view .. 'y:' .. tenant .. ':' .. owner .. ':' .. context
end

-- Redis orders by bytes; Lua's own comparison depends on the server's locale.
local function is_before(time, task, other_time, other_task)
  if tonumber(time) ~= tonumber(other_time) then
    return tonumber(time) < tonumber(other_time)
  end
  for i = 1, math.min(#task, #other_task) do
    if task:byte(i) ~= other_task:byte(i) then
      return task:byte(i) < other_task:byte(i)
    end
  end
  return #task < #other_task
end

-- Adds a row to what the rows have in common.
local function include(shared, task, row)
  if shared[1] == '' or is_before(row[2], task, shared[2], shared[1]) then
    shared[1], shared[2] = task, row[2]
  end
  if shared[3] == '' or not is_before(row[3], task, shared[4], shared[3]) then
    shared[3], shared[4] = task, row[3]
  end
  if tonumber(row[4]) > tonumber(shared[5]) then
    shared[5] = row[4]
  end
end

local function store_shared(view, tenant, owner, context, shared)
  redis.call('HSET', thread_key(view, tenant, owner, context), '', cjson.encode(shared))
  redis.call('ZADD', view .. 'x:' .. tenant .. ':' .. owner, shared[4], context)
end

local function put_row(view, tenant, owner, context, task, row, is_new)
  local key = thread_key(view, tenant, owner, context)
  local stored = redis.call('HGET', key, '')
  local shared = stored and cjson.decode(stored) or { '', '0', '', '0', '0', {} }
  include(shared, task, row)
  if is_new then
    shared[6][row[1]] = (shared[6][row[1]] or 0) + 1
  end
  redis.call('HSET', key, task, cjson.encode(row))
  store_shared(view, tenant, owner, context, shared)
end

local function drop_row(view, tenant, owner, context, task)
  local key = thread_key(view, tenant, owner, context)
  if redis.call('HDEL', key, task) == 0 then
    return
  end
  local rows, shared, left = redis.call('HGETALL', key), { '', '0', '', '0', '0', {} }, 0
  for i = 1, #rows, 2 do
    if rows[i] ~= '' then
      local row = cjson.decode(rows[i + 1])
      include(shared, rows[i], row)
      shared[6][row[1]] = (shared[6][row[1]] or 0) + 1
      left = left + 1
    end
  end
  if left > 0 then
    store_shared(view, tenant, owner, context, shared)
  else
    redis.call('DEL', key)
    redis.call('ZREM', view .. 'x:' .. tenant .. ':' .. owner, context)
  end
end

-- Applies the change of a task's row: created, changed, answered ('0': unchanged), title, what was said (null:
-- nothing), output to be shown.
local function change_row(view, tenant, about, task, change, output)
  local created, changed, answered, title, said = unpack(change)
  local row
  if created ~= '0' then
    row = { about.agent, created, changed, answered, title, said ~= cjson.null and said or '' }
  else
    local key = thread_key(view, tenant, about.owner, about.context)
    local stored = redis.call('HGET', key, task)
    if not stored then
      return
    end
    row = cjson.decode(stored)
    row[3] = changed
    row[4] = answered ~= '0' and answered or row[4]
    row[6] = said ~= cjson.null and said or row[6]
  end
  if output ~= '' then
    row[6] = output
  end
  put_row(view, tenant, about.owner, about.context, task, row, created ~= '0')
end

local function note_summary(view, tenant, about, task)
  redis.call('SADD', view .. 'z:' .. tenant .. ':' .. about.owner, about.agent .. ':' .. task)
end

-- Removes a task from its thread.
local function leave_thread(view, tenant, was, task)
  if was.summary then
    redis.call('SREM', view .. 'z:' .. tenant .. ':' .. was.owner, was.agent .. ':' .. task)
  else
    drop_row(view, tenant, was.owner, was.context, task)
  end
end
