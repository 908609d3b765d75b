"""How long workers' requests for runs wait, and what one that froze while it was idle costs."""

from collections.abc import AsyncIterator

import orjson
import pytest
from nats.aio.msg import Msg

from headrace import Agent, Emission, RunContext, agent
from headrace.jetstream.client import Listening, NatsClient
from headrace.jetstream.consumers import nak, pull_subject, reply_subject
from headrace.model.queues import RunQueue
from headrace.tasks.runs import ensure_queue
from headrace_worker import poll
from headrace_worker.concurrency import AgentConcurrency, ConcurrencyLimit
from headrace_worker.poll import Puller
from tests.integration.worker.conftest import Working
from tests.support.task_submitter import TaskSubmitter
from tests.support.waiting import soon

_AGENT = "clerk"
_SECOND = 1_000_000_000


@pytest.fixture
async def waits(submitter: TaskSubmitter) -> list[float]:
    """Seconds that the requests of an idle queue are to wait, as they are sent."""
    await ensure_queue(submitter.bus, RunQueue(_AGENT))
    found, subject = list[float](), pull_subject(submitter.bus.streams.runs, _AGENT)
    await submitter.bus.listen(
        subject, lambda msg: found.append(orjson.loads(msg.data)["expires"] / _SECOND)
    )
    await submitter.bus.connection.flush()
    return found


@pytest.fixture
def clerk() -> Agent:
    """An agent that answers at once."""

    @agent(name=_AGENT)
    async def clerk(_: RunContext) -> AsyncIterator[Emission]:
        yield "done"

    return clerk


def _idle(
    submitter: TaskSubmitter, permits: int, given: list[Msg], *, queues: int = 1, in_use: int = 0
) -> Puller:
    """Return what pulls for a worker with other queues; its runs never end."""
    limit = ConcurrencyLimit(permits)
    limit.users = queues - 1
    concurrency = AgentConcurrency(limit, ConcurrencyLimit(permits))
    concurrency.acquire_free(in_use)

    async def repair() -> None:
        """Nothing is ever broken."""

    return Puller(submitter.bus, _AGENT, given.append, concurrency, repair, idle_after=-1.0)


async def test_a_run_given_to_a_worker_that_froze_idle_is_done_by_another(
    submitter: TaskSubmitter, working: Working, waits: list[float], clerk: Agent
) -> None:
    given = list[Msg]()
    frozen = _idle(submitter, 2, given, in_use=1)
    await frozen.start()
    await soon(lambda: len(waits) == 1, "the worker waits for a run")
    assert poll.EXPIRES < waits[0] <= poll.EXPIRES_IDLE + 0.1
    async with working(clerk):
        await soon(lambda: len(waits) == 2, "so does another one")
        task = await submitter.start(_AGENT)
        await task.ended()
    assert len(given) == 1
    await frozen.drain()


@pytest.mark.parametrize("case", ["a run", "other servers", "few permits", "one permit"])
async def test_requests_do_not_wait_long_with(
    submitter: TaskSubmitter, waits: list[float], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if case == "other servers":
        monkeypatch.setattr(NatsClient, "has_only_copies", False)
    given = list[Msg]()
    permits = 1 if case == "one permit" else 7
    puller = _idle(submitter, permits, given, queues=4 if case == "few permits" else 1)
    await puller.start()
    await soon(lambda: bool(waits), "the worker waits for a run")
    if case == "a run":
        await submitter.start(_AGENT)
        await soon(lambda: len(waits) > 1, "the worker waits for the next one")
    assert waits[-1] <= poll.EXPIRES + 0.1
    await puller.drain()


async def test_a_run_that_arrives_while_its_worker_stops_goes_back_at_once(
    submitter: TaskSubmitter,
    waits: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given, answers, drain = list[Msg](), list[bytes](), Listening.drain
    replies = reply_subject(submitter.bus.streams.runs, _AGENT, 1, 1).split(".")[:4]
    await submitter.bus.listen(".".join([*replies, ">"]), lambda msg: answers.append(msg.data))
    stopping = _idle(submitter, 1, given)
    await stopping.start()
    await soon(lambda: len(waits) == 1, "the worker waits for a run")

    async def drain_late(listening: Listening) -> None:
        await submitter.start(_AGENT)
        await soon(lambda: answers, "the run came, although no more are pulled")
        await drain(listening)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(Listening, "drain", drain_late)
    await stopping.drain()
    assert (given, answers) == ([], [nak()])
