-- Returns one page of a list, newest status first, tasks with equal times by descending id:
-- {positions of the ranges, total, '1' if there are more, {task, time, hash, history items,
-- artifact items}, …}.
--
-- KEYS: era, positions of the ranges, read in the same step, so that the caller notices if the view
--       has been lost
-- ARGV: prefix of the views' keys, tenant, owner ('' for all), agent ('' for all), state ('' for
--       all), '1' to filter by context, context, minimum time ('-inf' for none), time and task after
--       which the page begins ('' for the first page), size, '1' to include artifacts, number of last
--       messages of each task ('' for all)

local view = ARGV[1] .. (redis.call('GET', KEYS[1]) or '0') .. ':'
local tenant = ARGV[2]
local least, after_time, after_task = ARGV[8], ARGV[9], ARGV[10]
local size = tonumber(ARGV[11])

-- Redis orders by bytes; Lua's own comparison depends on the server's locale.
local function less(a, b)
  for i = 1, math.min(#a, #b) do
    if a:byte(i) ~= b:byte(i) then
      return a:byte(i) < b:byte(i)
    end
  end
  return #a < #b
end

local function listing(owner, agent)
  local key = view .. 'l:' .. tenant .. ':' .. owner .. ':' .. agent
  if ARGV[5] ~= '' then
    key = key .. ':s:' .. ARGV[5]
  end
  if ARGV[6] == '1' then
    key = key .. ':c:' .. ARGV[7]
  end
  return key
end

local found = {}

local function collect(key)
  local from = after_time == '' and '+inf' or after_time
  local offset, taken, most = 0, 0, size + 1
  while taken < most do
    local some = redis.call(
      'ZRANGE', key, from, least, 'BYSCORE', 'REV', 'LIMIT', offset, most, 'WITHSCORES')
    for i = 1, #some, 2 do
      local task, time = some[i], some[i + 1]
      if time ~= after_time or less(task, after_task) then
        found[#found + 1] = { task, time }
        taken = taken + 1
      end
    end
    if #some < 2 * most then
      return
    end
    offset = offset + most
  end
end

-- Lists within a context are by owner.
local function owners_with(agent)
  if ARGV[3] == '' and ARGV[6] == '1' then
    return redis.call('SMEMBERS', view .. 'k:' .. tenant .. ':' .. agent .. ':' .. ARGV[7])
  end
  return { ARGV[3] }
end

local agents = { ARGV[4] }
if ARGV[4] == '' then
  agents = redis.call('SMEMBERS', view .. 'o:' .. tenant .. ':' .. ARGV[3])
end
local total = 0
for _, agent in ipairs(agents) do
  for _, owner in ipairs(owners_with(agent)) do
    local key = listing(owner, agent)
    total = total + redis.call('ZCOUNT', key, least, '+inf')
    collect(key)
  end
end
table.sort(found, function(a, b)
  if a[2] ~= b[2] then
    return tonumber(a[2]) > tonumber(b[2])
  end
  return less(b[1], a[1])
end)

local positions = {}
for i = 2, #KEYS do
  positions[i - 1] = redis.call('HGET', KEYS[i], 'position')
end
local answer = { positions, total, #found > size and '1' or '0' }
for i = 1, math.min(size, #found) do
  local key = view .. 't:' .. tenant .. ':' .. found[i][1]
  answer[#answer + 1] = {
    found[i][1],
    found[i][2],
    redis.call('HGETALL', key),
    history_of(key, ARGV[13]),
    ARGV[12] == '1' and redis.call('LRANGE', key .. ':a', 0, -1) or {},
  }
end
return answer
