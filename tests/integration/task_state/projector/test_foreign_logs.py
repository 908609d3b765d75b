"""Logs that another agent's worker writes under a task's id: its subjects allow it that."""

import dataclasses
from collections.abc import Callable

import pytest

from headrace.jetstream.connection import Bus
from headrace.log.find import locate
from headrace.log.read import TOMBSTONE
from headrace.model.entry import OWNER, VERSION
from headrace.model.subjects import encode_token
from headrace.model.task import COMPLETED
from headrace.tasks.dead_letters import LetterFilter, Letters
from headrace.webhooks import Address, TaskWebhook, WebhookProgress, Webhooks
from tests.support.legal_logs import LegalLog
from tests.support.raw_nats import publish_raw
from tests.support.task_states import TaskStates, folded, new_key
from tests.support.waiting import TIMEOUT, eventually

type Forgery = Callable[[LegalLog], LegalLog]


def some_log(log: LegalLog) -> LegalLog:
    log.submit("hello")
    log.begin_attempt()
    log.append([log.chunk("a", "the truth")])
    return log


def begun_anew(victim: LegalLog) -> LegalLog:
    """Return a whole log of the other agent's, in the name of the task's owner."""
    forged = LegalLog(victim.key._replace(agent="hostile"), log="forged00")
    forged.submit("hello")
    forged.begin_attempt()
    forged.append([forged.status(COMPLETED)], state=COMPLETED)
    return forged


def going_on(victim: LegalLog) -> LegalLog:
    """Return entries that go on with the task's own log."""
    forged = LegalLog(victim.key._replace(agent="hostile"), log=victim.log)
    forged.generation, forged.run, forged.attempt = victim.generation, 1, 1
    forged.append([forged.chunk("a", "a lie")])
    forged.append([forged.status(COMPLETED)], state=COMPLETED)
    return forged


async def put_tombstone(bus: Bus, log: LegalLog) -> None:
    """Put a tombstone that says that the task was deleted."""
    headers = {VERSION: "1", TOMBSTONE: "deleted", OWNER: log.owner}
    await bus.js.publish(bus.subjects.event(log.key), b"", timeout=TIMEOUT, headers=headers)


@pytest.mark.parametrize("forge", [begun_anew, going_on])
async def test_what_another_agents_worker_writes_under_a_tasks_id_changes_nothing(
    fleet: TaskStates, forge: Forgery, caplog: pytest.LogCaptureFixture
) -> None:
    victim, later = some_log(LegalLog(new_key())), some_log(LegalLog(new_key()))
    forged = forge(victim)
    webhooks = Webhooks(fleet.bus)
    hook = TaskWebhook(
        id="hook",
        owner=victim.owner,
        # Nobody is there: it is told nothing, and nothing makes it go.
        address=Address(url="https://127.0.0.1:1/"),
        progress=WebhookProgress(generation=0),
    )
    await webhooks.put(victim.key, hook)
    await fleet.start()

    async def is_listed(log: LegalLog) -> bool:
        return log.key.task in await fleet.listed(agents=[log.key.agent])

    # All lie in one shard, so what is stored later is applied later.
    await fleet.store(victim)
    await eventually(lambda: is_listed(victim), "the task is in the view")
    await fleet.store(forged)
    await put_tombstone(fleet.bus, forged)
    await fleet.store(later)
    await eventually(lambda: is_listed(later), "the view has passed the forgery")
    assert (await fleet.listed(agents=[victim.key.agent]))[victim.key.task] == folded(victim)
    assert not await fleet.listed(agents=["hostile"])
    assert (await fleet.get(victim.key, agent=victim.key.agent)).task == folded(victim)
    assert await webhooks.get(victim.key, encode_token("hook")) is not None
    assert await locate(fleet.bus, victim.key.task) == victim.key
    assert "with the id of another agent's task" in caplog.text


@pytest.mark.parametrize("tenant", ["*", ">", "a:b", "ä"])
async def test_a_log_of_no_possible_tenant_becomes_a_dead_letter_and_stops_nothing(
    fleet: TaskStates, tenant: str
) -> None:
    later = some_log(LegalLog(new_key()))
    impossible = some_log(LegalLog(later.key._replace(tenant=tenant)))
    await fleet.start()
    await fleet.store(impossible)
    await fleet.store(later)

    async def is_listed() -> bool:
        return later.key.task in await fleet.listed(agents=[later.key.agent])

    await eventually(is_listed, "the view has passed the log")
    letters = [one async for one in Letters(fleet.bus).find(LetterFilter())]
    assert {(one.tenant, one.agent) for one in letters} == {("unknown", "agent")}
    assert len(letters) == len(impossible.entries)
    assert await locate(fleet.bus, later.key.task) == later.key


async def test_a_log_whose_subject_is_no_text_becomes_a_dead_letter_and_stops_nothing(
    fleet: TaskStates,
) -> None:
    later = some_log(LegalLog(new_key()))
    subject = fleet.bus.subjects.event(later.key).encode()
    await fleet.start()
    publish_raw(fleet.settings.nats_url, subject.removesuffix(later.key.task.encode()) + b"\xff")
    await fleet.store(later)

    async def is_listed() -> bool:
        return later.key.task in await fleet.listed(agents=[later.key.agent])

    await eventually(is_listed, "the view has passed the log")
    [letter] = [one async for one in Letters(fleet.bus).find(LetterFilter())]
    assert (letter.tenant, letter.agent) == (later.key.tenant, later.key.agent)
    assert letter.content.subject.endswith(".\ufffd")


async def test_who_was_first_to_write_under_a_childs_id_does_not_hide_the_child(
    fleet: TaskStates,
) -> None:
    """Ids of child tasks follow from their parents, so they can be known before they begin."""
    child, later = some_log(LegalLog(new_key())), some_log(LegalLog(new_key()))
    forged = begun_anew(child)
    await fleet.start()
    # The forgery is there first, and its last entry comes after the child's.
    await fleet.store(dataclasses.replace(forged, messages=forged.messages[:-1]))
    await fleet.store(child)
    await fleet.store(forged, first=len(forged.entries) - 1)
    await fleet.store(later)

    async def is_listed() -> bool:
        return later.key.task in await fleet.listed(agents=[later.key.agent])

    await eventually(is_listed, "the view has passed the logs")
    assert (await fleet.get(child.key, agent=child.key.agent)).task == folded(child)
