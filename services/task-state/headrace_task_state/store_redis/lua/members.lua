-- Shared by the scripts that read or change lists: the members of lists.
--
-- All members of a list have the same score, so they are ordered by their bytes: the letter of the task's
-- state, the time of its status (us) in 7 bytes, and its id, whose 32 digits take 16 bytes. In lists of
-- contexts, the number of the task's owner in 4 bytes comes first. New members are built in
-- `store_redis/encoding.py`.

-- Task ids have one form. Any other text stays as it is.
local function short_id(task)
  local shard, digits = string.match(task, '^(%d+%-)([0-9a-f]+)$')
  if not digits or #digits ~= 32 then
    return task
  end
  local four = {}
  for i = 1, 4 do
    four[i] = tonumber(string.sub(digits, 8 * i - 7, 8 * i), 16)
  end
  return shard .. struct.pack('>I4I4I4I4', unpack(four))
end

local function long_id(short)
  local at = string.find(short, '-', 1, true)
  if not at or #short ~= at + 16 then
    return short
  end
  local a, b, c, d = struct.unpack('>I4I4I4I4', short, at + 1)
  return string.sub(short, 1, at) .. string.format('%08x%08x%08x%08x', a, b, c, d)
end

local function packed_time(time)
  return struct.pack('>I7', tonumber(time))
end

local function packed_number(number)
  return struct.pack('>I4', tonumber(number))
end

-- Returns the member of a task in lists of owners; '': it is on no list.
local function member_of(task, state, time)
  local letter = LETTERS[state]
  return letter and letter .. packed_time(time) .. short_id(task) or ''
end

