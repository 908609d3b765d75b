"""What a deletion of one message says."""

from headrace.jetstream.api import delete_message
from tests.support.memory_bus import memory_bus
from tests.support.task_log import TaskLog


async def test_only_the_first_deletion_of_a_message_says_that_it_existed() -> None:
    async with memory_bus() as bus:
        log = TaskLog(bus)
        await log.begin()
        assert await delete_message(bus, log.stream, log.writer.sequence)
        assert not await delete_message(bus, log.stream, log.writer.sequence)
