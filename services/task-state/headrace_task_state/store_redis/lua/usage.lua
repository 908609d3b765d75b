-- Shared by the scripts that apply entries: counting what runs use (`usage.py`). These keys belong to
-- no view, so that what has been counted outlives views and tasks.
--
--   <usage>t:<tenant>:<task>   hash: how far the task's log is counted: log, generation, root, and
--                              when the present run started (ms; '': it has not)
--   <usage>d:<tenant>:<day>    hash: <owner>:<agent>:<root>:<kind> -> count

local MOST_FIELDS = 100000 -- counters of one tenant and day; beyond, owners are counted as '*'
-- For which the ledger of an erased task is kept: another version's replica may have entries in
-- memory, and may apply them until it loses its lease.
local LEDGER_SECONDS = 600

-- What a batch counts, by key and field; sent at its end, with one command per counter.
local counted = {}
-- Ledgers that the batch has written: they expire when nothing changes them any more. A task may be
-- lost with its stream, and then nothing erases it. Not before the totals, or a view that is built
-- anew would count the task again.
local written = {}
local LOST_SECONDS = 400 * 24 * 3600 -- at least: many times as long as tasks are kept

local function count_later(key, field, number)
  if number <= 0 then
    return
  end
  local some = counted[key]
  if not some then
    some = {}
    counted[key] = some
  end
  some[field] = (some[field] or 0) + number
end

local function count_now(seconds)
  for key, some in pairs(counted) do
    local fields = redis.call('HLEN', key)
    for field, number in pairs(some) do
      if fields >= MOST_FIELDS and redis.call('HEXISTS', key, field) == 0 then
        field = string.gsub(field, '^[^:]*', '*', 1)
      end
      redis.call('HINCRBY', key, field, string.format('%.0f', number))
    end
    redis.call('EXPIRE', key, seconds)
  end
  for key in pairs(written) do
    redis.call('EXPIRE', key, math.max(tonumber(seconds), LOST_SECONDS))
  end
  counted, written = {}, {}
end

-- Counts the records of a log that are not counted yet. `root` and `copied` are set where a log
-- begins that another task asked for, or that begins with a copy of another log.
local function count_usage(usage, tenant, task, owner, agent, log, root, copied, records)
  if #records == 0 and root == '' and copied == 0 then
    return
  end
  local key = usage .. 't:' .. tenant .. ':' .. task
  local was = redis.call('HMGET', key, 'log', 'generation', 'root', 'started')
  local base, started = copied, ''
  if was[1] == log then
    base, root, started = tonumber(was[2]), was[3], was[4]
  else
    redis.call('DEL', key)
    if root == '' then
      root = agent
    end
  end
  local latest = base
  local row = owner .. ':' .. agent .. ':' .. root .. ':'
  for _, record in ipairs(records) do
    local generation, kind, time, day, input, output, tokens, cost = unpack(record)
    if generation > base then
      latest = math.max(latest, generation)
      local totals = usage .. 'd:' .. tenant .. ':' .. day
      if kind == START and started == '' then
        started = time
      elseif kind == END and started ~= '' then
        count_later(totals, row .. RUNS, 1)
        count_later(totals, row .. MILLISECONDS, time - tonumber(started))
        started = ''
      elseif kind == REPORT then
        count_later(totals, row .. INPUT, input)
        count_later(totals, row .. OUTPUT, output)
        count_later(totals, row .. TOKENS, tokens)
        count_later(totals, row .. COST, cost)
      end
    end
  end
  if started ~= '' then
    started = string.format('%.0f', started)
  end
  redis.call('HSET', key, 'log', log, 'generation', latest, 'root', root, 'started', started)
  written[key] = true
end

local function forget_ledger(usage, tenant, task)
  local key = usage .. 't:' .. tenant .. ':' .. task
  redis.call('EXPIRE', key, LEDGER_SECONDS)
  written[key] = nil
end

