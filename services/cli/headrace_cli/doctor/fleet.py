"""Checks of the services: which of them answer, and what they could not process."""

from collections.abc import AsyncIterator, Collection, Iterator

import orjson

from headrace.directory import Directory
from headrace.jetstream.api import stream_state
from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable
from headrace.model.messages import ProcessQuery
from headrace.processes import ask_processes
from headrace.tasks.dead_letters import LetterFilter, Letters
from headrace_cli.doctor.diagnosis import Diagnosis, ok, problem, warning
from headrace_cli.doctor.versions import check_versions

AGENTS, TASK_STATE, DEAD_LETTERS = "agents", "task state", "dead letters"

_TIMEOUT = 2.0

_FAR_BEHIND = 10_000
"""Log entries that task state applies in some seconds."""


async def check_fleet(bus: Bus, missing: Collection[str]) -> AsyncIterator[Diagnosis]:
    """Yield what is found about the services on the connected `bus`.

    Its streams exist, except for event streams in `missing`.

    Raises:
        BusUnavailable: JetStream does not answer.
    """
    directory = Directory(bus)
    await directory.read()
    for finding in _check_agents(directory):
        yield finding
    found = await ask_processes(bus, ProcessQuery(), directory.workers_to_ask())
    for finding in check_versions(found, directory.workers()):
        yield finding
    yield await _check_task_state(bus, missing)
    yield await _check_dead_letters(bus)


def _check_agents(directory: Directory) -> Iterator[Diagnosis]:
    cards = directory.cards()
    for card in cards:
        if not directory.available(card.name):
            text = f"no worker serves {card.name}: its runs wait"
            yield warning(AGENTS, text, "start a worker that serves it")
        for caution in card.cautions:
            yield warning(AGENTS, f"{card.name}: {caution.text}", caution.remedy)
    if not cards:
        yield warning(
            AGENTS, "no agent is announced", "start a worker: headrace worker MODULE:ATTR"
        )
    elif workers := directory.workers():
        yield ok(AGENTS, f"{len(cards)} known, {len(workers)} workers")


async def _check_task_state(bus: Bus, missing: Collection[str]) -> Diagnosis:
    try:
        answer = await bus.request(bus.subjects.state("ready"), b"", _TIMEOUT)
        positions = orjson.loads(answer.data).get("positions") or {}
    except (BusUnavailable, ValueError):
        return problem(
            TASK_STATE,
            "no replica answers: lists are refused and webhooks wait",
            "check Redis and the logs of headrace task-state",
        )
    lag = 0
    for number in range(bus.settings.event_streams):
        if (name := bus.streams.events(number)) not in missing:
            head = (await stream_state(bus, name)).last
            lag += max(0, head - int(positions.get(str(number), 0)))
    if lag > _FAR_BEHIND:
        return warning(TASK_STATE, f"its view is {lag} log entries behind", "start more replicas")
    return ok(TASK_STATE, f"its view is {lag} log entries behind")


async def _check_dead_letters(bus: Bus) -> Diagnosis:
    async for _ in Letters(bus).find(LetterFilter()):
        return warning(DEAD_LETTERS, "the stream is not empty", "headrace dead list")
    return ok(DEAD_LETTERS, "the stream is empty")
