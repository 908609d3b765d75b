-- Applies a batch of a range's entries to the view, if the caller holds the range's lease and the
-- range's progress is where the batch begins. Returns 'fenced', 'moved', or the places in the batch, from 0,
-- of the changes that were ignored: those of logs under the ids of other agents' tasks, and those of
-- tasks that had ended before.
--
-- KEYS: lease, progress
-- ARGV: token, lease duration (ms), view, range, ms after which the parent of a child task is
--       checked, prefix of the usage keys, seconds for which usage is kept, expected position, expected number of batches of last entries, number of
--       progress fields, these fields and values; then for
--       each task its member in lists ('': none), its text if it begins and ends here and is short, else '',
--       and a JSON array:
--         tenant, task, log, '1' if its log begins here or 'gone' if a tombstone replaced it,
--         state, time of the status (us), when a waiting input is due (ms) or since when the task
--         waits for its user, when it ended (ms), each '' if it does not change;
--         owner, agent, context, the parent of a child task, each but the agent '' unless its log begins
--         here;
--         arrays of hash fields and values, of history items and of artifact items, empty with a text;
--         the agent whose task of this id it replaces, and the urgency of completing a summary, each
--         '' if there is none;
--         the array of usage records, the agent at the root ('': none), the last generation that
--         is a copy of another log's (0: none), and the array of the row's change, see `join_thread`.
--       Of a task that is gone, only the time (ms) and the agent are set.
--       Between the progress fields and these come new tasks that are added together, as `add_together`
--       expects them. If one of them is there already, 'occupied' is returned and nothing is written.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'fenced'
end
local at = redis.call('HMGET', KEYS[2], 'position', 'summaries')
if (at[1] or '0') ~= ARGV[8] or (at[2] or '0') ~= ARGV[9] then
  return 'moved'
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local foreign, behind = {}, {}
local fields = tonumber(ARGV[10])
local first = add_together(ARGV[3], ARGV[6], 11 + fields)
if not first then
  return 'occupied'
end
redis.call('HSET', KEYS[2], unpack(ARGV, 11, 10 + fields))
for at = first, #ARGV, 3 do
  local member, text, change = ARGV[at], ARGV[at + 1], cjson.decode(ARGV[at + 2])
  local ignored = apply_change(ARGV[3], ARGV[4], ARGV[5], ARGV[6], change, member, text)
  if ignored then
    local places = ignored == 'foreign' and foreign or behind
    places[#places + 1] = (at - first) / 3
  end
end
add_now()
count_now(ARGV[7])
return { foreign, behind }
