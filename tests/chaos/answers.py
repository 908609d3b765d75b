"""Answers to events on the bus: read those that are stored, and check them against the logs."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import unquote

from nats.aio.msg import Msg
from nats.js.api import StreamConfig

from headrace.jetstream.api import stream_info, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.jetstream.headers import MESSAGE_ID, SEQUENCE, TIME
from headrace.model.errors import BusUnavailable
from headrace.model.events import GENERATION, Json
from headrace.model.fold import TaskFold
from tests.chaos.record import Log

STREAM, SUBJECT = "CHAOS_ANSWERS", "chaos.answers"
WINDOW = 120.0
"""Seconds for which the stream drops an answer that is published again: JetStream's default, and
longer than any fault or wait of a run."""

RULES: Mapping[str, Json | None] = {
    "silent": None,
    "ending": {"what": "end", "mode": "structured"},
    "telling": {"what": "events", "mode": "binary"},
}
"""The triggers' answer rules, by trigger. Each event belongs to one trigger."""

_EACH = 500


def rule_of(trigger: str) -> Json:
    """Return the `answers` part of a trigger's specification; empty if it does not answer."""
    rule = RULES[trigger]
    return {} if rule is None else {"answers": {"subject": SUBJECT, "stream": STREAM, **rule}}


@dataclass(frozen=True, slots=True)
class BusAnswer:
    """An answer as it is stored."""

    message_id: str
    attributes: dict[str, str]
    """Of the CloudEvent."""
    data: Json
    stored: str = ""
    """When its stream stored it, as NATS writes it."""

    @classmethod
    def of(cls, headers: Mapping[str, str], body: bytes) -> "BusAnswer":
        """Read a message in either mode of CloudEvents."""
        content, message_id = json.loads(body), headers.get(MESSAGE_ID, "")
        stored = headers.get(TIME, "")
        if "Content-Type" in headers:
            data = content.pop("data")
            return cls(message_id, content, data, stored)
        prefix = "ce-"
        attributes = {
            name.removeprefix(prefix): unquote(value)
            for name, value in headers.items()
            if name.startswith(prefix)
        }
        return cls(message_id, attributes, content, stored)

    @property
    def task(self) -> str:
        """The task's id."""
        return self.attributes["subject"]

    @property
    def generation(self) -> int:
        """Generation of the last event that it covers; 0 for a whole task."""
        [content] = self.data.values()
        return int((content.get("metadata") or {}).get(GENERATION, 0))


async def make_stream(bus: Bus, nodes: int) -> None:
    """Create the answers' stream with a copy on each of `nodes` nodes."""
    config = StreamConfig(
        name=STREAM,
        subjects=[SUBJECT],
        num_replicas=nodes,
        duplicate_window=WINDOW,
        allow_direct=True,
    )
    await bus.js.add_stream(config)


async def stored_answers(bus: Bus) -> list[BusAnswer]:
    """Return all stored answers, in the stream's order.

    Raises:
        BusUnavailable: NATS does not answer.
    """
    info = await until_answered(bus, lambda: stream_info(bus, STREAM))
    answers, reached = list[BusAnswer](), 0
    # A replica may be behind the leader, which the next one is not.
    while reached < info["state"]["last_seq"]:
        query = {"batch": _EACH, "seq": reached + 1, "next_by_subj": SUBJECT}
        with suppress(BusUnavailable):
            for sequence, answer in (await direct_get(bus, STREAM, query, _read)).messages:
                answers.append(answer)
                reached = sequence
    return answers


def _read(msg: Msg) -> tuple[int, BusAnswer]:
    headers = msg.headers or {}
    return int(headers[SEQUENCE]), BusAnswer.of(headers, msg.data)


class AnswerJudge:
    """Finds answers that are missing, repeated, out of order, or that differ from the log."""

    def __init__(self, answers: Iterable[BusAnswer]) -> None:
        """Check `answers`, which are in stored order."""
        self._of_task = defaultdict[str, list[BusAnswer]](list)
        self._stored = defaultdict[str, list[str]](list)
        for one in answers:
            self._of_task[one.task].append(one)
            self._stored[one.attributes["id"]].append(one.stored)

    def check_all(self, tasks: Iterable[tuple[str, Log]], unrecorded: int) -> Iterator[str]:
        """Yield the problems of the answers to `tasks`, each with its trigger.

        `unrecorded` more tasks, erased before they could be copied, may have answered.
        """
        yield from (
            f"answer {name} is stored {len(times)} times: {', '.join(times)}"
            for name, times in self._stored.items()
            if len(times) > 1
        )
        expected = set[str]()
        for trigger, log in tasks:
            if (rule := RULES[trigger]) is not None:
                expected.add(log.key.task)
                yield from (f"{trigger} {log.key.task}: {each}" for each in self._of(log, rule))
        others = self._of_task.keys() - expected
        if len(others) > unrecorded:
            yield f"{len(others)} tasks answered that must not: {sorted(others)[:5]}"

    def _of(self, log: Log, rule: Json) -> Iterator[str]:
        answers, whole = self._of_task[log.key.task], log.task()
        for one in answers:
            yield from _check_attributes(one, log)
        if rule["what"] == "end":
            if [one.data for one in answers] != [{"task": whole}]:
                yield f"its end is not its one answer, but {[one.data for one in answers]}"
            return
        fold = TaskFold()
        for one in answers:
            fold.apply(one.data)
        places = [one.generation for one in answers]
        if any(before >= after for before, after in pairwise(places)):
            yield f"its answers are out of order: {places}"
        elif not answers or (fold.generation, fold.task()) != (_last_generation(log), whole):
            yield f"its answers, {places}, do not make up its {_last_generation(log)} events"


def _check_attributes(answer: BusAnswer, log: Log) -> Iterator[str]:
    """Yield the attributes of an answer that differ from the log."""
    generation = answer.generation or _last_generation(log)
    name = f"{log.entries[0].stamp.log}:{generation}:answers"
    if {answer.attributes["id"], answer.message_id} != {name}:
        yield f"{name} is {answer.attributes['id']}, stored as {answer.message_id}"
    if answer.attributes["source"] != f"/v1/agents/{log.key.agent}":
        yield f"{name} comes from {answer.attributes['source']}"


def _last_generation(log: Log) -> int:
    return log.entries[-1].last_generation
