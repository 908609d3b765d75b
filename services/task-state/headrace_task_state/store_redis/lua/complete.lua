-- Replaces a task's summary by the task folded from its whole log, or deletes it, if the caller holds
-- the lease of the range and the summary is still of the same entry. Returns 'fenced', or whether it
-- was replaced.
--
-- KEYS: lease
-- ARGV: token, view, range, ms after which the parent of a child task is checked, prefix of
--       the usage keys, seconds for which usage is kept, name (<tenant>:<task>), stream sequence of the entry, the task as in apply.lua
--       (nothing: there is none)

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'fenced'
end
local view, range, name = ARGV[2], ARGV[3], ARGV[7]
local was = standing(view .. 't:' .. name)
if not was or not was.summary or was.sequence ~= ARGV[8] then
  return 0
end
forget(view, range, name, was, ARGV[9] ~= nil)
if ARGV[9] then
  local change = cjson.decode(ARGV[11])
  apply_change(view, range, ARGV[4], ARGV[5], change, ARGV[9], ARGV[10])
  if FINISHED[change[5]] and sequence_in(change[13], ARGV[10]) < tonumber(ARGV[8]) then
    -- The summary was of an entry behind the end.
    redis.call('ZADD', view .. 'f:' .. range, 'GT', ARGV[8], name)
  end
  add_now()
  count_now(ARGV[6])
end
return 1
