"""A list that waits for output has it written, however long output may accumulate."""

from headrace.jetstream.api import stream_state
from headrace.model.task import WORKING
from headrace_task_state.projector.applied import wait_until_applied
from tests.integration.task_state.projector.test_follower import long_log
from tests.integration.task_state.projector.test_lag import FIRST, followed, reported
from tests.support.task_states import TaskStates
from tests.support.waiting import eventually


async def test_output_is_written_when_a_list_waits_for_it(fleet: TaskStates) -> None:
    log, first = long_log(1), 0
    async with followed(fleet, output_linger=3600) as held:
        held.opened.set()
        stream = fleet.bus.streams.events(FIRST.stream)
        for number in range(3):
            await fleet.store(log, first)
            head, first = (await stream_state(fleet.bus, stream)).last, len(log.entries)

            async def is_applied(head: int = head) -> bool:
                await wait_until_applied(fleet.bus, FIRST, head)
                return reported("headrace_position") == head

            await eventually(is_applied, f"everything is applied up to {head}")
            log.append([log.chunk("a", f"more {number}")], state=WORKING)


async def test_a_list_has_an_idle_replica_see_that_the_store_was_rolled_back(
    fleet: TaskStates,
) -> None:
    await fleet.start()
    await fleet.store(long_log(1))
    assert len((await fleet.list()).tasks) == 1
    progress = fleet.keys.progress(FIRST)
    [before] = await fleet.redis.ask(["HGETALL", progress])
    await fleet.store(long_log(1))
    assert len((await fleet.list()).tasks) == 2
    await fleet.redis.ask(["HSET", progress, *(word for pair in before.items() for word in pair)])
    # Nothing else is stored, which would have the replica look at the store.
    assert len((await fleet.list()).tasks) == 2
