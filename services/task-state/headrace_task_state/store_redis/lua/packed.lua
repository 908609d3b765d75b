-- Shared by the scripts that read or change tasks: how a task is stored.
--
-- An open task is a hash and two lists, which are appended to. A short one that has ended is a string
-- instead, its text (`store_redis/encoding.py`): it takes half the memory, and nothing is appended to it.
--
-- The constants of `encoding.constants` are defined before it.

-- Returns the text of a task; nil: it is too long for one.
local function text_of(fields, history, artifacts)
  local first = {}
  for i, name in ipairs(USUAL) do
    first[i] = fields[name] or cjson.null
    fields[name] = nil
  end
  fields.marks = nil -- made again when the items become a list again
  for name, value in pairs(fields) do
    first[#first + 1] = name
    first[#first + 1] = value
  end
  local lines = { cjson.encode(first) }
  for _, item in ipairs(history) do
    lines[#lines + 1] = 'h' .. item
  end
  for _, item in ipairs(artifacts) do
    lines[#lines + 1] = 'a' .. item
  end
  local text = table.concat(lines, '\n')
  return #text <= MOST_BYTES and text or nil
end

-- Returns the fields of a text, as a table.
local function fields_in(text)
  local first, fields = cjson.decode(string.match(text, '^[^\n]*')), {}
  for i, name in ipairs(USUAL) do
    fields[name] = first[i] ~= cjson.null and first[i] or nil
  end
  for i = #USUAL + 1, #first, 2 do
    fields[first[i]] = first[i + 1]
  end
  return fields
end

local function type_of(key)
  return redis.call('TYPE', key).ok
end

local function as_table(names_and_values)
  local found = {}
  for i = 1, #names_and_values, 2 do
    found[names_and_values[i]] = names_and_values[i + 1]
  end
  return found
end

