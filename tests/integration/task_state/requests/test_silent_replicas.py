"""A replica that is frozen, or a leader that is being elected, costs a question time, no more."""

import asyncio
import signal
from pathlib import Path

import pytest

from headrace.model.errors import StateUnavailable
from headrace.model.task import WORKING
from tests.support.cluster import NatsCluster
from tests.support.legal_logs import LegalLog
from tests.support.pids import freeze
from tests.support.servers import ValkeyProcess
from tests.support.task_states import OWNER, TaskStates, new_key, open_task_states
from tests.support.topology import Topology

QUESTIONS = 24
"""So many that some go to either of two replicas."""


def begun() -> LegalLog:
    log = LegalLog(new_key(), context="context-1", owner=OWNER)
    log.submit("hello")
    log.begin_attempt()
    log.append([log.chunk("a", "some text")], state=WORKING)
    return log


@pytest.mark.parametrize("at_once", [True, False])
async def test_every_question_is_answered_while_one_of_two_replicas_is_frozen(
    fleet: TaskStates, tmp_path: Path, *, at_once: bool
) -> None:
    log = begun()
    await fleet.store(log)
    frozen = await fleet.spawn(tmp_path, "frozen")
    await fleet.followed()
    await fleet.start()
    freeze(frozen.pid)
    try:
        questions = [fleet.get_now(log.key) for _ in range(QUESTIONS)]
        if at_once:
            found = await asyncio.gather(*questions)
        else:
            found = [await question for question in questions]
    finally:
        frozen.send_signal(signal.SIGCONT)
    assert {one.sequence for one in found} == {found[0].sequence}


async def test_a_subject_without_subscribers_is_known_at_once(fleet: TaskStates) -> None:
    with pytest.raises(StateUnavailable):
        await fleet.list_now()


async def test_a_question_waits_for_the_leader_that_is_being_elected(
    nats_cluster: NatsCluster, valkey: ValkeyProcess
) -> None:
    servers = Topology(nats_cluster.nodes, nats_cluster)
    try:
        async with open_task_states(nats_cluster.url, valkey.url, replicas=3) as fleet:
            log = begun()
            await fleet.store(log)
            await fleet.start()
            await fleet.followed()
            leader = await servers.leader(fleet.bus, fleet.bus.streams.of_shard(log.key.shard))
            leader.kill()
            found = await asyncio.gather(*(fleet.get_now(log.key) for _ in range(3)))
            assert {one.task["id"] for one in found} == {log.key.task}
    finally:
        await asyncio.to_thread(servers.heal)
