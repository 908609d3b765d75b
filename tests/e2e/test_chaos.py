"""Processes die, freeze and drain at random, and every promise holds.

`make chaos` is the same at full size; it prints the command that repeats a run.
"""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.model.delegation import DELEGATION, Lineage
from headrace.model.entry import Entry, Stamp
from headrace.model.events import Json, artifact_update, status_update, task_submitted
from headrace.model.schedule import ScheduleFirings
from headrace.model.step import StepRecord
from headrace.model.task import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, WORKING, TaskKey
from headrace.model.wait import SIGNING_STEP, SourceEvent, arrived, timed_out
from headrace.settings import BusSettings
from tests.chaos.__main__ import summary
from tests.chaos.agents import DROPPED_PROMPT, answer_to
from tests.chaos.answers import BusAnswer
from tests.chaos.awaited_calls import WAITED, check_waits, is_of_wait
from tests.chaos.clients import CLIENTS, ClientContext, TaskClient, TaskFollower
from tests.chaos.faults import KINDS, plan
from tests.chaos.firings import EVENTS, FiredTask, FiringJudge, text_of_event, trigger_of_event
from tests.chaos.fleet import fleet_in
from tests.chaos.hostile import CHAIN_TASKS, HostileEvents, kind_of
from tests.chaos.record import Log
from tests.chaos.run import Size, run
from tests.chaos.step_journal import StepJournal
from tests.chaos.task_trees import TaskTrees
from tests.chaos.verdict import ends, forked, overlaps
from tests.support.forked_process import HEADRACE
from tests.support.resuming_bindings import Received

SEED = 20
ROOT = "0-" + "0" * 32
IN_FULL = "HEADRACE_SOAK" in os.environ
ON_ONE = (
    Size(SEED, tasks=1_000, at_a_time=60, faults=150, events=1_000, schedules=10)
    if IN_FULL
    else Size(SEED, tasks=24, at_a_time=12, faults=16, long=4.0, retention=6.0)
)
ON_THREE = Size(SEED, tasks=500, at_a_time=40, faults=60, nodes=3, events=500, schedules=10)


async def survives(size: Size, folder: Path) -> None:
    with fleet_in(
        folder,
        nodes=size.nodes,
        retention=size.retention,
        program=(HEADRACE,),
        has_triggers=size.has_triggers,
    ) as fleet:
        outcome = await run(fleet, size)
        log = fleet.stack.log()
    assert outcome.problems == [], f"{summary(outcome)}\n{log}"
    assert len(outcome.clients) == len(CLIENTS)
    kinds = sum(kind.is_possible(size.nodes, has_triggers=size.has_triggers) for kind in KINDS)
    assert len(outcome.faults) > kinds / 2
    assert bool(outcome.by_events and outcome.by_schedules) == size.has_triggers
    assert outcome.children > 0
    assert outcome.erased > 0


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_every_task_ends_and_nothing_is_missed_while_processes_die_stop_and_leave(
    tmp_path: Path,
) -> None:
    await survives(ON_ONE, tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not IN_FULL, reason="takes minutes: make soak, or make chaos ARGS='--nodes 3'")
async def test_every_task_ends_while_nodes_of_a_cluster_die_and_leaders_change(
    tmp_path: Path,
) -> None:
    await survives(ON_THREE, tmp_path)


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_seed_determines_the_faults_and_their_times(nodes: int) -> None:
    first, again, other = (list(islice(plan(seed, nodes, 9.0), 100)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    kinds = sum(kind.is_possible(nodes, has_triggers=False) for kind in KINDS)
    assert len({fault.name for _, fault in first[:kinds]}) >= kinds - 1


async def test_a_client_without_an_answer_when_its_task_is_erased_has_not_seen_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def sees_a_question(follower: TaskFollower, _: object) -> None:
        request = {"statusUpdate": {"status": {"state": INPUT_REQUIRED}}}
        follower.received.append(Received("log1:3", request))
        follower.task, follower.over = ROOT, True

    monkeypatch.setattr(TaskFollower, "follow", sees_a_question)
    erased = httpx.MockTransport(lambda _: httpx.Response(404, text="TASK_NOT_FOUND"))
    async with httpx.AsyncClient(transport=erased) as http:
        client = TaskClient(ClientContext(http, ["http://gateway.test"], SEED), 1)
        await client.work()
    assert (client.outcome_name, client.follower.over) == ("erased", False)


def entry(
    run: int, attempt: int, writer: str, state: str = WORKING, record: StepRecord | None = None
) -> Entry:
    step = None if record is None else record.encode()
    return Entry(Stamp("log1", 1, writer, state, run, attempt, step=step), [b"{}"], 1, "")


def arrival(source: str = "webhook/step 5", body: str = "a1") -> StepRecord:
    """Return the record of a wait's event."""
    event = SourceEvent("2026-11-30T10:00:00.000Z", body.encode())
    return StepRecord(arrived(source), event.encode())


@pytest.mark.parametrize(
    "log",
    [
        [entry(1, 1, "a"), entry(1, 2, "b"), entry(1, 1, "a")],
        [entry(1, 1, "a"), entry(1, 1, "b")],
        [entry(2, 1, "a"), entry(1, 2, "b")],
        [entry(1, 1, "a"), entry(1, 1, "wake-1")],
        [entry(1, 1, "a"), entry(1, 1, "wake-1", record=StepRecord(("work", 0), "1"))],
        [entry(1, 1, "a"), entry(1, 1, "b", record=arrival())],
        [entry(1, 1, "a"), entry(1, 2, "wake-1", record=arrival())],
        [entry(1, 1, "a"), entry(1, 1, "wake-1", COMPLETED, record=arrival())],
    ],
)
def test_overlapping_attempts_are_reported(log: list[Entry]) -> None:
    assert list(overlaps(log))
    assert not list(overlaps([entry(1, 1, "a"), entry(1, 2, "b"), entry(4, 1, "c")]))
    others = [entry(1, 1, "wake-1", record=arrival()), entry(1, 1, "input-1")]
    assert not list(overlaps([entry(1, 1, "a"), *others, entry(1, 1, "a")]))


CALLED = ["409:c3", "202:a1", "heard:a1", "heard:a1", "404:d4"]


@pytest.mark.parametrize(
    ("records", "lines", "wrong"),
    [
        ([arrival()], CALLED, ""),
        ([arrival()], ["heard:a1"], ""),  # The caller was killed before it noted the answer.
        ([], ["202:a1", "heard:a1"], "it has the events {} instead of"),
        ([arrival(), arrival(body="b2")], CALLED, "instead of one each"),
        ([arrival(), arrival("webhook/step 6")], CALLED, "instead of one each"),
        ([arrival(body="b2")], ["202:a1", "heard:b2"], "202 was answered for ['a1'], and the log"),
        ([arrival()], ["202:a1", "202:b2", "heard:a1"], "202 was answered for ['a1', 'b2']"),
        ([arrival()], ["202:a1", "202:a1", "heard:a1"], "202 was answered for ['a1', 'a1']"),
        ([arrival()], ["202:a1", "heard:a1", "heard:b2"], "the agent got ['a1', 'b2']"),
        ([arrival()], ["202:a1"], "the agent got []"),
        ([arrival()], ["404:b2", *CALLED], "with 404 while the agent waited"),
    ],
)
def test_waits_without_exactly_one_event_and_lost_calls_are_reported(
    records: list[StepRecord], lines: list[str], wrong: str, tmp_path: Path
) -> None:
    path = tmp_path / "steps"
    path.write_text("".join(f"{WAITED} t 5 {line}\n" for line in lines))
    found = list(check_waits(StepJournal(path), "t", records, [5]))
    assert any(wrong in each for each in found) if wrong else found == []


def test_records_of_waits_are_no_steps() -> None:
    secret = StepRecord((SIGNING_STEP, SIGNING_STEP), '"s"')
    assert all(map(is_of_wait, [arrival(), StepRecord(timed_out("w"), "null"), secret]))
    assert not is_of_wait(StepRecord(("work", 0), "1"))


def log_of(task: str, requests: str, state: str, *, name: str = "") -> list[Entry]:
    """Return a log: of the client's task, `ROOT`, or of what that has asked for."""
    lineage = Lineage(ROOT, "head", 1, name, ("head",))
    metadata = {DELEGATION: lineage.to_json()} if name else {}
    draft = task_submitted(task, "c", {"parts": [{"text": requests}]}, metadata)
    stamp = Stamp("log1", 1, "w", state, 1, 1)
    return [Entry(stamp, [draft.line(1)], 1, "")]


@pytest.mark.parametrize(
    ("children", "wrong"),
    [
        (
            [
                ("a", "5 1", COMPLETED),
                ("b", "6 1", COMPLETED),
                ("dropped", DROPPED_PROMPT, CANCELED),
            ],
            "",
        ),
        ([("a", "5 1", COMPLETED)], "it delegated"),
        ([(n, t, COMPLETED) for n, t in (("a", "5 1"), ("b", "6 1"), ("c", "6 1"))], "than once"),
        ([("a", "5 1", COMPLETED), ("b", "6 1", CANCELED)], "its children are"),
        ([("a", "5 1", COMPLETED), ("b", "6 1", WORKING)], "its parent has ended"),
        ([("key:dropped 1", DROPPED_PROMPT, COMPLETED)], "did not wait for it"),
    ],
)
def test_wrong_children_are_reported(children: list[tuple[str, str, str]], wrong: str) -> None:
    task_trees = TaskTrees()
    task_trees.add(TaskKey("default", "head", ROOT), log_of(ROOT, "5 1", COMPLETED))
    for name, request, state in children:
        named = "key:dropped 1" if name == "dropped" else name
        log = log_of(named, request, state, name=named)
        task_trees.add(TaskKey("default", "plain", named), log)
    found = task_trees.problems()
    assert task_trees.size == len(children)
    assert any(wrong in each for each in found) if wrong else found == []


@pytest.mark.parametrize(
    "states", [[WORKING], [WORKING, CANCELED, COMPLETED], [COMPLETED, WORKING, COMPLETED]]
)
def test_logs_that_do_not_end_exactly_once_are_reported(states: list[str]) -> None:
    assert list(ends(log_with([entry(1, 1, "a", state) for state in states])))
    assert not list(ends(log_with([entry(1, 1, "a"), entry(1, 1, "a", COMPLETED)])))


def log_with(entries: list[Entry]) -> Log:
    return Log(TaskKey("default", "plain", ROOT), entries)


def test_a_missing_entry_is_noticed() -> None:
    whole = [Entry(Stamp("log1", n, "a", WORKING, 1, 1), [b"{}"], n, "") for n in (1, 2, 3)]
    assert log_with(whole).is_whole
    assert not log_with([whole[0], whole[2]]).is_whole
    assert not log_with(whole[1:]).is_whole


@pytest.mark.parametrize(
    ("state", "answer", "wrong"),
    [
        (COMPLETED, "1 2 ", ""),
        (INPUT_REQUIRED, "1 2 ", ""),
        (COMPLETED, "1 1 2 ", "answered '1 1 2 '"),
        (COMPLETED, "2 ", "answered '2 '"),
        (FAILED, "1 2 ", "ended as TASK_STATE_FAILED"),
    ],
)
def test_forks_with_another_answer_are_reported(state: str, answer: str, wrong: str) -> None:
    task = {
        "id": "f",
        "history": [{"role": "ROLE_USER", "parts": [{"text": "2 1"}]}],
        "artifacts": [{"parts": [{"text": answer}]}],
        "status": {"state": state},
    }
    found = list(forked("plain", task))
    assert any(wrong in each for each in found) if wrong else found == []


SCHEDULE = "schedule/anonymous/s0"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def fired(
    source: str, key: str, text: str, *, answer: str = "", state: str = COMPLETED, task: str = "t"
) -> Log:
    """Return the log of a task that a firing has begun."""
    metadata = {"headrace.trigger": {"source": source, "key": key}}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    output = {"artifactId": "a", "parts": [{"text": answer or answer_to("plain", text)}]}
    drafts = [
        task_submitted(task, "c", message, metadata),
        artifact_update(task, "c", output),
        status_update(task, "c", state),
    ]
    lines = [draft.line(number) for number, draft in enumerate(drafts, 1)]
    entry = Entry(Stamp(f"log-{task}", 1, "w", state, 1, 1), lines, len(lines), "")
    return Log(TaskKey("default", "plain", task), [entry])


def events(*numbers: int) -> list[Log]:
    return [
        fired(EVENTS + trigger_of_event(number), f"id/{number}", text_of_event(number))
        for number in numbers
    ]


def ticks(*seconds: int) -> list[Log]:
    """Return the tasks of a schedule's firings at these seconds after noon."""
    times = [(NOON + timedelta(seconds=one)).isoformat() for one in seconds]
    return [fired(SCHEDULE, f"1.0/{one}", "1 0 s0") for one in times]


def hostile_events() -> HostileEvents:
    """Return a run of four hostile events, one of each kind, after which each has ended once."""
    events = HostileEvents(Bus(BusSettings()), 4)
    for number in range(4):
        events.published[kind_of(number)].append(number)
        events.ids[kind_of(number)].append(f"hostile-{number}")
    events.letters.update([("malformed", 0), ("huge", 1)])
    return events


def hostile_tasks(*, braced: int = 1, looping: int = 5) -> list[FiredTask]:
    """Return the tasks of the event in braces and of the loop; a loop's have keys of their own."""
    names = [("braced", "hostile-2")] * braced
    names += [("looping", f"{number}") for number in range(looping)]
    logs = [fired(f"trigger/eve/{kind}", f"id/{name}", "1 0 h") for kind, name in names]
    return FiringJudge(logs, 0).tasks


def test_hostile_events_that_did_not_end_once_are_reported() -> None:
    assert list(hostile_events().problems(hostile_tasks(), 0)) == []
    lost, twice = hostile_events(), hostile_events()
    lost.letters.clear()
    twice.letters["huge", 1] += 1
    assert len(list(lost.problems(hostile_tasks(), 0))) == 2
    [more] = twice.problems(hostile_tasks(), 0)
    assert more == "huge events have become so many letters each: {2: 1}"


@pytest.mark.parametrize(
    "tasks", [{"braced": 0}, {"braced": 2}, {"looping": CHAIN_TASKS + 2}, {"looping": 1}]
)
def test_hostile_events_that_begin_other_tasks_than_theirs_are_reported(
    tasks: dict[str, int],
) -> None:
    assert len(list(hostile_events().problems(hostile_tasks(**tasks), 0))) == 1


def test_events_that_did_not_begin_one_task_are_reported() -> None:
    assert list(FiringJudge(events(0, 1), 0).check_events(2)) == []
    assert list(FiringJudge(events(0), 1).check_events(2)) == []
    [missing] = FiringJudge(events(0), 0).check_events(2)
    assert "1 events have begun no task" in missing
    twice = FiringJudge(events(0, 1, 1), 0)
    assert list(twice.check_tasks()) == [f"{EVENTS}ending: id/1 has begun 2 tasks"]
    assert "has begun 2 tasks" in next(twice.check_events(2))


def test_incomplete_tasks_of_events_are_reported() -> None:
    [cut] = FiringJudge([fired(EVENTS, "id/0", text_of_event(0), answer="1 ")], 0).check_tasks()
    assert "was answered with '1 '" in cut
    [failed] = FiringJudge([fired(EVENTS, "id/0", text_of_event(0), state=FAILED)], 0).check_tasks()
    assert "it ended as TASK_STATE_FAILED" in failed


def answered(log: Log, what: str) -> list[BusAnswer]:
    """Return the answers that a whole log has."""
    [entry] = log.entries
    received = dict(enumerate(entry.parsed(), 1))
    data = {3: {"task": log.task()}} if what == "ending" else received
    return [named(log, number, one) for number, one in data.items()]


def named(log: Log, number: int, data: Json) -> BusAnswer:
    name = f"{log.entries[0].stamp.log}:{number}:answers"
    headers = {"Nats-Msg-Id": name, "ce-id": name, "ce-subject": log.key.task}
    return BusAnswer.of(headers | {"ce-source": "/v1/agents/plain"}, json.dumps(data).encode())


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda received: received, ""),
        (lambda received: received[1:], "its end is not its one answer"),
        (lambda received: received[:-1], "its answers, [1, 2], do not make up"),
        (lambda received: received[:2] + received[3:], "its answers, [1, 3], do not make up"),
        (lambda received: [*received, received[-1]], "is stored 2 times"),
        (lambda received: [*received[:-2], received[-1], received[-2]], "out of order"),
        (
            lambda received: [replace(received[0], message_id="other"), *received[1:]],
            "stored as other",
        ),
        (
            lambda received: [renamed(received[0]), *received[1:]],
            "log-ending:3:answers is other, stored",
        ),
    ],
)
def test_answers_on_the_bus_that_are_repeated_missing_or_out_of_order_are_reported(
    change: Callable[[list[BusAnswer]], list[BusAnswer]], wrong: str
) -> None:
    tasks = [
        fired(EVENTS + name, name, text_of_event(0), task=name) for name in ("ending", "telling")
    ]
    received = [one for log in tasks for one in answered(log, log.key.task)]
    found = list(FiringJudge(tasks, 0).check_answers(change(received)))
    assert any(wrong in each for each in found) if wrong else found == []


def test_answers_of_triggers_without_a_rule_are_reported() -> None:
    silent = fired(f"{EVENTS}silent", "id/0", text_of_event(0))
    [wrong] = FiringJudge([silent], 0).check_answers(answered(silent, "ending"))
    assert "must not" in wrong
    assert list(FiringJudge([], 1).check_answers(answered(silent, "ending"))) == []


def renamed(answer: BusAnswer) -> BusAnswer:
    return replace(answer, message_id="other", attributes=answer.attributes | {"id": "other"})


def test_ticks_that_did_not_begin_one_task_are_reported() -> None:
    recorded = {SCHEDULE: ScheduleFirings(began=4)}
    assert list(FiringJudge(ticks(1, 2, 3, 4), 0).check_schedules(recorded, [])) == []
    gap = FiringJudge(ticks(1, 2, 3, 6), 0)
    assert "has not fired" in next(gap.check_schedules(recorded, []))
    away = [(NOON + timedelta(seconds=4), NOON + timedelta(seconds=5))]
    assert list(gap.check_schedules(recorded, away)) == []
    [twice] = FiringJudge(ticks(1, 2, 3, 3), 0).check_schedules(recorded, [])
    assert twice.endswith("twice")
    moved = {SCHEDULE: [NOON + timedelta(seconds=one) for one in (1, 2, 3, 4, 9)]}
    [lost] = FiringJudge(ticks(1, 2, 3, 4), 0).check_schedules(recorded, [], moved)
    assert "has not fired" in lost
    unsure = FiringJudge(ticks(1, 2, 3, 4), 0)
    assert list(unsure.check_schedules(recorded, [], moved, is_certain=False)) == []
    [more] = FiringJudge(ticks(1, 2, 3, 4, 5), 0).check_schedules(recorded, [])
    assert "says that it has begun 4 tasks, not 5" in more
