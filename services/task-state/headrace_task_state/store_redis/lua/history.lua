-- Shared by the scripts that read tasks.

local MOST_READ = 64 -- items of a history that are read in one command

local function slice(key, first, last)
  return redis.call('LRANGE', key .. ':h', first, last)
end

-- Returns how many of the run's messages are in the history for certain. `items` are those of the run in
-- any order; what an attempt may have discarded is not counted.
local function messages_of_run(items, before)
  local number, seen = 0, {}
  for _, item in ipairs(items) do
    local generation, tag = string.match(item, '^%[(%d+),"(%a+)"')
    if tag == DROP then
      return 1
    elseif tag == OUT and tonumber(generation) < before then
      local name = cjson.decode(item)[3].messageId
      if type(name) ~= 'string' or not seen[name] then
        number = number + 1
        seen[type(name) == 'string' and name or number] = true
      end
    end
  end
  return number + 1
end

-- Returns the position of the first item to read for the last `length` messages before generation
-- `before`: an input, because what follows an input depends on nothing before it.
local function first_needed(key, size, length, before)
  local number, run = 0, {}
  local last = size - 1
  while last >= 0 do
    local first = math.max(last - MOST_READ + 1, 0)
    local some = slice(key, first, last)
    for i = #some, 1, -1 do
      local generation, message = string.match(some[i], '^%[(%d+),"' .. IN .. '",(.)')
      if generation == nil then
        run[#run + 1] = some[i]
      else
        if message == '{' and tonumber(generation) < before then
          number = number + messages_of_run(run, before)
        end
        if number >= length then
          return first + i - 1
        end
        run = {}
      end
    end
    last = first - 1
  end
  return 0
end

-- Returns the history items of a task that its last `length` messages ('': all) and its metadata need.
local function history_of(key, length)
  if length == '' then
    return slice(key, 0, -1)
  end
  local fields = redis.call('HMGET', key, 'status_generation', 'marks')
  local size = redis.call('LLEN', key .. ':h')
  local first = size
  if length ~= '0' then
    first = first_needed(key, size, tonumber(length), tonumber(fields[1] or '1'))
  end
  local items = {}
  for mark in string.gmatch(fields[2] or '', '%d+') do
    if tonumber(mark) < first then
      items[#items + 1] = redis.call('LINDEX', key .. ':h', mark)
    end
  end
  if first < size then
    for _, item in ipairs(slice(key, first, -1)) do
      items[#items + 1] = item
    end
  end
  return items
end

-- Returns a task's hash (empty: there is none), the history items that its last `length` messages and its
-- metadata need, and its artifact items, if asked for; or its text.
local function task_of(key, length, with_artifacts)
  if type_of(key) == 'string' then
    return redis.call('GET', key), {}, {}
  end
  return redis.call('HGETALL', key), history_of(key, length),
    with_artifacts and redis.call('LRANGE', key .. ':a', 0, -1) or {}
end

