-- Returns one page of a list, newest status first, tasks with equal times by descending id:
-- {positions of the ranges, total, '1' if there are more, {state, number, …}, {time, task} of the last
-- one that was looked at, {task, time, hash, history items, artifact items}, …}; of some tasks the text
-- (`packed.lua`) instead of the hash, and no items.
--
-- KEYS: the projection's number, positions of the ranges, read in the same step, so that the caller
--       notices if the view has been lost
-- ARGV: prefix of the views' keys, tenant, owner ('' for all), agents ('' for all, else with commas), '1' to filter by
--       context, context, minimum time, time and task after which the page begins
--       ('' for the first page), size, '1' to include artifacts, number of last messages of each task
--       ('' for all), '1' for the oldest status first, '1' to return only the first item of each history
--       and the numbers of tasks in each state, whatever `states` are, words that are in the
--       ids or openings of the tasks that are returned ('' for all; in lower case), states (none for all)

local view = ARGV[1] .. (redis.call('GET', KEYS[1]) or '0') .. ':'
local tenant = ARGV[2]
local least, after_time, after_task = ARGV[7], ARGV[8], ARGV[9]
local size = tonumber(ARGV[10])
local oldest_first, openings, sought = ARGV[13] == '1', ARGV[14] == '1', ARGV[15]

-- Redis orders by bytes; Lua's own comparison depends on the server's locale.
local function less(a, b)
  for i = 1, math.min(#a, #b) do
    if a:byte(i) ~= b:byte(i) then
      return a:byte(i) < b:byte(i)
    end
  end
  return #a < #b
end

local wanted = {}
for i = 16, #ARGV do
  wanted[ARGV[i]] = true
end

local letters = {}
for state, letter in pairs(LETTERS) do
  if #ARGV < 16 or wanted[state] then
    letters[#letters + 1] = letter
  end
end

-- Returns the numbers of the owners with tasks in a context.
local function numbers_in(key)
  local found, from = {}, '-'
  while true do
    local first = redis.call('ZRANGE', key, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
    if not first then
      return found
    end
    local number = string.sub(first, 1, 4)
    found[#found + 1] = number
    from = '(' .. number .. '\255'
  end
end

-- Returns the list of an agent's tasks, and what its members begin with: an owner's number, or nothing.
local function lists_with(agent)
  if ARGV[5] ~= '1' then
    return view .. 'l:' .. tenant .. ':' .. ARGV[3] .. ':' .. agent, { '' }
  end
  local key = view .. 'c:' .. tenant .. ':' .. agent .. ':' .. ARGV[6]
  if ARGV[3] == '' then
    return key, numbers_in(key)
  end
  local number = redis.call('HGET', view .. 'u:' .. tenant, ARGV[3])
  return key, number and { packed_number(number) } or {}
end

local oldest = packed_time(least)
local total, sources, counts = 0, {}, {}

-- Returns up to a page and one of the members from `first` to `last`, in the order of the page.
local function range_of(key, first, last, start)
  local after = after_time ~= '' and '(' .. start .. packed_time(after_time) .. short_id(after_task)
  if oldest_first then
    return redis.call('ZRANGE', key, after or first, last, 'BYLEX', 'LIMIT', 0, size + 1)
  end
  return redis.call('ZRANGE', key, after or last, first, 'BYLEX', 'REV', 'LIMIT', 0, size + 1)
end

-- Adds the tasks in one state, which are in the order of the page.
local function collect(key, start)
  local first, last = '[' .. start .. oldest, '(' .. start .. '\255'
  local number = redis.call('ZLEXCOUNT', key, first, last)
  if number == 0 then
    return
  end
  total = total + number
  local some = range_of(key, first, last, start)
  if #some > 0 then
    sources[#sources + 1] = { some = some, at = 0, skip = #start }
  end
end

local function count(key, start, state)
  local first, last = '[' .. start .. LETTERS[state] .. oldest, '(' .. start .. LETTERS[state] .. '\255'
  counts[state] = (counts[state] or 0) + redis.call('ZLEXCOUNT', key, first, last)
end

local agents = {}
for agent in string.gmatch(ARGV[4], '[^,]+') do
  agents[#agents + 1] = agent
end
if ARGV[4] == '' then
  agents = redis.call('SMEMBERS', view .. 'o:' .. tenant .. ':' .. ARGV[3])
end
for _, agent in ipairs(agents) do
  local key, starts = lists_with(agent)
  for _, start in ipairs(starts) do
    for _, letter in ipairs(letters) do
      collect(key, start .. letter)
    end
    for state in pairs(openings and LETTERS or {}) do
      count(key, start, state)
    end
  end
end

-- Goes to the source's next task; returns whether there is one.
local function advance(source)
  source.at = source.at + 1
  local member = source.some[source.at]
  if member then
    source.time = struct.unpack('>I7', member, source.skip + 1)
    source.id = string.sub(member, source.skip + 8)
  end
  return member ~= nil
end

-- Returns whether `a` comes before `b` in the order of the page.
local function is_before(a, b)
  if a.time ~= b.time then
    return (a.time > b.time) ~= oldest_first
  end
  return less(b.id, a.id) ~= oldest_first
end

for _, source in ipairs(sources) do
  advance(source)
end

-- Returns the next task of all sources, and its time; nil: there are no more.
local function next_task()
  local best
  for i, source in ipairs(sources) do
    if not best or is_before(source, sources[best]) then
      best = i
    end
  end
  if not best then
    return nil
  end
  local source = sources[best]
  local id, time = source.id, source.time
  if not advance(source) then
    table.remove(sources, best)
  end
  return long_id(id), string.format('%.0f', time)
end

local positions = {}
for i = 2, #KEYS do
  positions[i - 1] = redis.call('HGET', KEYS[i], 'position')
end
local numbers = {}
for state, number in pairs(counts) do
  numbers[#numbers + 1] = state
  numbers[#numbers + 1] = number
end

-- Returns a task as `task_of`, with the first item of its history only: the text's first two lines.
local function opening_of(key)
  -- Most are texts: to ask for the type first would take as long again.
  local text = redis.pcall('GET', key)
  if type(text) == 'string' then
    return string.match(text, '^[^\n]*\n?[^\n]*'), {}, {}
  end
  return redis.call('HGETALL', key), redis.call('LRANGE', key .. ':h', 0, 0), {}
end

local words = {}
for word in string.gmatch(sought, '[^ ]+') do
  words[#words + 1] = word
end

-- By first bytes: most texts have none of them.
local become_ascii = {}
for _, character in ipairs(BECOME_ASCII) do
  local first = string.sub(character, 1, 1)
  become_ascii[first] = become_ascii[first] or {}
  table.insert(become_ascii[first], character)
end

local function has_any_of_them(text)
  for first, characters in pairs(become_ascii) do
    if string.find(text, first, 1, true) then
      for _, character in ipairs(characters) do
        if string.find(text, character, 1, true) then
          return true
        end
      end
    end
  end
  return false
end

-- Returns whether an opening may contain what is sought. What is known of a summary is not enough to tell.
local function is_sought(task, found, history)
  local text = found
  if type(found) ~= 'string' then
    local fields = as_table(found)
    if fields.summary then
      return true
    end
    text = (fields.status or '') .. (history[1] or '')
  end
  text = string.lower(task .. text)
  for _, word in ipairs(words) do
    if not string.find(text, word, 1, true) then
      return has_any_of_them(text)
    end
  end
  return true
end

local answer = { positions, total, '0', numbers, {} }
for _ = 1, size do
  local task, time = next_task()
  if not task then
    break
  end
  answer[5] = { time, task }
  local key = view .. 't:' .. tenant .. ':' .. task
  if not openings then
    answer[#answer + 1] = { task, time, task_of(key, ARGV[12], ARGV[11] == '1') }
  else
    local found, history, artifacts = opening_of(key)
    if is_sought(task, found, history) then
      answer[#answer + 1] = { task, time, found, history, artifacts }
    end
  end
end
if #sources > 0 then
  answer[3] = '1'
end
return answer
