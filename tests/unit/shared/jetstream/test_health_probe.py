"""When a silent server is left, and when only this process was too busy to read its answer."""

import asyncio
import time

import pytest

from headrace.jetstream.health_probe import HealthProbe, ProbeTiming

TIMING = ProbeTiming(interval=0.01, without_others=0.01, timeout=0.1, only_server=0.5)


class FakeServer:
    """Answers pings as long as it is told to; each answer is there once the loop runs again."""

    def __init__(self, answers: int, blocks: float = 0.0) -> None:
        self.pings = 0
        self._answers, self._blocks = answers, blocks

    def ping(self, answer: asyncio.Future[bool]) -> bool:
        self.pings += 1
        if self.pings <= self._answers:
            loop = asyncio.get_running_loop()
            loop.call_soon(time.sleep, self._blocks)
            # As bytes in a socket are, it is read after the timers that are due.
            loop.call_later(self._blocks + TIMING.timeout / 10, answer.set_result, True)  # noqa: FBT003  # its result
        return True


@pytest.mark.parametrize("others", [True, False])
async def test_a_silent_server_is_left_after_two_lost_probes(
    others: bool,  # noqa: FBT001  # a parameter
) -> None:
    server = FakeServer(answers=3)
    probe = HealthProbe(server.ping, lambda: others, TIMING)
    async with asyncio.timeout(60):
        await probe.run()
    assert probe.is_silent
    assert (server.pings == 3 + 2) is others
    assert server.pings >= 3 + 2


async def test_a_process_that_was_busy_does_not_take_its_server_for_silent() -> None:
    server = FakeServer(answers=3, blocks=3 * TIMING.timeout)
    probe = HealthProbe(server.ping, lambda: True, TIMING)
    running = asyncio.create_task(probe.run())
    async with asyncio.timeout(60):
        while server.pings < 4:
            assert not probe.is_silent
            await asyncio.sleep(TIMING.timeout / 10)
    running.cancel()


async def test_a_connection_that_is_not_there_is_not_silent() -> None:
    probe = HealthProbe(lambda _: False, lambda: True, TIMING)
    running = asyncio.create_task(probe.run())
    await asyncio.sleep(0.2)
    assert not probe.is_silent
    assert not running.done()
    running.cancel()
