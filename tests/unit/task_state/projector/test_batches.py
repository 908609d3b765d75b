"""Messages become writes: short, in order, and never an exception."""

import random

import orjson
import pytest
from nats.aio.msg import Msg

from headrace.log.read import TOMBSTONE
from headrace.model import change, events
from headrace.model.change import Change
from headrace.model.entry import OWNER, Stamp
from headrace.model.events import Json
from headrace.model.subjects import Subjects
from headrace.model.task import BARE_MESSAGE, COMPLETED, WORKING
from headrace.tasks.dead_letters import addressee
from headrace_task_state.projector import batches as module
from headrace_task_state.projector.batches import Batches
from headrace_task_state.projector.consumer import Arrival
from headrace_task_state.projector.dead_letters import BODY_MOST, letter
from headrace_task_state.projector.delta import Compaction, time_of
from headrace_task_state.store import Progress, TaskChange, TaskRemoval
from tests.support.legal_logs import LegalLog
from tests.support.task_states import new_key

SUBJECTS = Subjects()


def arrival(
    sequence: int, subject: str, body: bytes, headers: dict[str, str] | None = None
) -> Arrival:
    msg = Msg(
        _client=None,  # type: ignore[arg-type]  # nobody answers it
        subject=subject,
        data=body,
        headers=headers,
    )
    return Arrival(sequence, sequence, sequence * 1_000_000_000, msg)


def arrivals(log: LegalLog) -> list[Arrival]:
    subject = SUBJECTS.event(log.key)
    return [
        arrival(sequence, subject, body, stamp.headers())
        for sequence, (stamp, body) in enumerate(log.entries, 1)
    ]


def begun() -> LegalLog:
    log = LegalLog(new_key())
    log.submit("hello")
    log.begin_attempt()
    return log


def test_nothing_moves_nothing() -> None:
    before = Progress(5, 5, 5, "origin")
    batch = Batches(SUBJECTS, 5, 30).build([], before)
    assert (batch.then, batch.changes, batch.letters) == (before, [], [])


def test_an_input_is_due_soon_and_a_running_task_after_the_silence_that_is_suspicious() -> None:
    log = begun()
    batches = Batches(SUBJECTS, 5, 30)
    built = [batches.build([one], Progress()).changes[0] for one in arrivals(log)]
    dues = [change.due for change in built if isinstance(change, TaskChange)]
    assert dues == [1_000 + 5_000, 2_000 + 30_000]


def test_a_batch_ends_at_its_last_message() -> None:
    batch = Batches(SUBJECTS, 5, 30).build(arrivals(begun()), Progress(origin="origin"))
    assert batch.then == Progress(2, 2, 2_000_000_000, "origin")


def test_a_status_that_the_batch_overtakes_is_not_sent() -> None:
    log = begun()
    log.append([log.status(COMPLETED)], state=COMPLETED)
    [change] = Batches(SUBJECTS, 5, 30).build(arrivals(log), Progress()).changes
    assert isinstance(change, TaskChange)
    status = orjson.loads(change.fields["status"])
    assert status["state"] == COMPLETED


def test_a_task_that_is_removed_in_the_batch_that_began_it_does_not_come_back() -> None:
    log = begun()
    gone = arrival(3, SUBJECTS.event(log.key), b"", {TOMBSTONE: "retention", OWNER: log.owner})
    for before in ([], arrivals(log)[:1]):
        batches = Batches(SUBJECTS, 5, 30)
        batches.build(before, Progress())
        changes = batches.build([*arrivals(log)[len(before) :], gone], Progress()).changes
        # Its usage is counted before.
        assert [type(one) for one in changes] == [TaskChange, TaskRemoval]
        assert changes[-1].owner == log.owner


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_an_answer_counts_from_when_it_was_stored_whatever_its_batch_holds(
    *, is_one_batch: bool
) -> None:
    log = begun()
    answer: Json = {"messageId": "x", "role": "ROLE_AGENT", "parts": [{"text": "yes"}]}
    log.append([events.bare_message(log.context, answer)], state=BARE_MESSAGE)
    stored, batches = arrivals(log), Batches(SUBJECTS, 5, 30)
    parts = [stored] if is_one_batch else [stored[:-1], stored[-1:]]
    *_, change = [change for part in parts for change in batches.build(part, Progress()).changes]
    assert isinstance(change, TaskChange)
    assert (change.state, change.time) == (BARE_MESSAGE, stored[-1].time // 1000)


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("headrace.event.3.t.a.3-nonsense", "not a task id"),
        (f"headrace.event.3.t.a.4-{'0' * 32}", "shard 3"),
        ("headrace.event.3.t.a", "tokens"),
        ("headrace.event.3.t.a.b.c.d", "tokens"),
        (f"headrace.event.3.t.a.{'1' * 12}.3-{'0' * 32}", "thread '111111111111'"),
        (f"headrace.event.3.t.a.{'0' * 12}.3-{'0' * 32}", "Version"),
    ],
)
def test_what_is_no_entry_is_stepped_over_with_a_letter(subject: str, reason: str) -> None:
    good = begun()
    batch = Batches(SUBJECTS, 5, 30).build(
        [arrival(1, subject, b"{}"), *arrivals(good)], Progress()
    )
    [found] = batch.letters
    assert reason in found.reason
    assert (found.sequence, found.subject) == (1, subject)
    assert batch.changes


def test_an_ill_formed_event_costs_one_letter_and_the_rest_of_its_entry_counts() -> None:
    log = begun()
    log.append([log.chunk("a", "x")])
    *first, last = arrivals(log)
    body = b'{"x":1}\n{"y":2}\n' + last.msg.data
    headers = Stamp(log.log, 3, "w", WORKING, 1, 1).headers()
    batch = Batches(SUBJECTS, 5, 30).build(
        [*first, arrival(3, last.msg.subject, body, headers)], Progress()
    )
    [found] = batch.letters
    assert "event 3" in found.reason
    assert "event 4" in found.reason
    [change] = batch.changes
    assert isinstance(change, TaskChange)
    assert [tag for _, tag, *_ in change.artifacts] == ["new"]


def test_an_entry_of_another_log_is_no_part_of_this_one() -> None:
    log = begun()
    foreign = Stamp("otherlog", 3, "w", WORKING, 1, 1).headers()
    event = log.status(WORKING, {"messageId": "foreign", "parts": []}).line(3)
    stray = arrival(9, SUBJECTS.event(log.key), event, foreign)
    batch = Batches(SUBJECTS, 5, 30).build([*arrivals(log), stray], Progress())
    assert [found.sequence for found in batch.letters] == [9]
    change, mark = batch.changes
    assert isinstance(change, TaskChange)
    assert change.history
    assert "foreign" not in str(batch.changes)
    assert mark == module.continuation(log.key, 9)


def test_what_is_remembered_of_tasks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_TASKS", 3)
    batches = Batches(SUBJECTS, 5, 30)
    for _ in range(10):
        batches.build(arrivals(begun()), Progress())
    assert len(batches._deltas) <= 4


def test_what_a_batch_has_changed_is_not_remembered_and_nothing_of_ended_tasks() -> None:
    open_log, ended = begun(), begun()
    ended.append([ended.status(COMPLETED)], state=COMPLETED)
    batches = Batches(SUBJECTS, 5, 30)
    assert len(batches.build([*arrivals(open_log), *arrivals(ended)], Progress()).changes) == 2
    [delta] = batches._deltas.values()
    assert delta.key == open_log.key
    assert delta._change.fields == {}


def test_a_letter_is_never_larger_than_a_message() -> None:
    headers = {"Short": "1", "Long": "x" * 400_000, "Last": "2"}
    of = arrival(7, "headrace.event.3.t.a.x", b"x" * 900_000, headers)
    found = letter(of, f"because {'x' * BODY_MOST}")
    assert len(found.encode()) < 500_000
    assert found.headers == {"Short": "1", "Last": "2"}
    found = letter(of, "because")
    assert f"from 900000 bytes to {BODY_MOST}" in found.reason
    assert found.at == "1970-01-01T00:00:07+00:00"


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("headrace.event.3.t.a.x", ("t", "a")),
        ("headrace.event.3.t", ("t", "unknown")),
        ("headrace.event.3", ("unknown", "unknown")),
    ],
)
def test_a_letter_has_an_addressee_whatever_the_subject(
    subject: str, expected: tuple[str, str]
) -> None:
    assert addressee(subject, "headrace") == expected


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        ("2026-01-01T00:00:00.123Z", 1767225600123000),
        ("2026-01-01T01:00:00.123456+01:00", 1767225600123456),
        ("2026-01-01T00:00:00", 5_000_000),
        ("9999-01-01T00:00:00Z", 5_000_000),
        ("0001-01-01T00:00:00Z", 5_000_000),
        ("soon", 5_000_000),
        (None, 5_000_000),
        (7, 5_000_000),
    ],
)
def test_a_status_without_a_usable_time_has_that_of_its_storing(
    timestamp: object, expected: int
) -> None:
    assert time_of({"timestamp": timestamp}, 5_000_000_000) == expected
    assert time_of({}, 5_000_000_000) == 5_000_000


def test_texts_that_go_on_are_kept_as_texts_alone() -> None:
    compaction = Compaction()
    block = {"agui_block_id": "b"}
    for generation, text in enumerate("abc", 3):
        tag = "new" if generation == 3 else "add"
        part = {"text": text, "metadata": block}
        compaction.add([generation, tag, {"artifactId": "a", "parts": [part]}])
    first, texts = compaction.flush()
    assert first == [3, "new", {"artifactId": "a", "parts": [{"text": "a", "metadata": block}]}]
    assert texts == [4, "t", "bc", 1, 1]
    compaction.add([6, "add", {"artifactId": "a", "parts": [{"text": "d", "metadata": block}]}])
    compaction.add([8, "add", {"artifactId": "a", "parts": [{"text": "e", "metadata": block}]}])
    assert compaction.flush() == [[6, "t", "d"], [8, "t", "e"]]


@pytest.mark.parametrize(
    "between",
    [
        [4, "drop", 3],
        [4, "new", {"artifactId": "a", "parts": [{"text": "x"}]}],
        [4, "add", {"artifactId": "b", "parts": [{"text": "x"}]}],
        [4, "add", {"artifactId": "a", "parts": [{"raw": "eA=="}]}],
        [4, "add", {"artifactId": "a", "parts": [{"text": "x", "metadata": {"end": True}}]}],
        [4, "add", {"artifactId": "a", "parts": []}],
    ],
    ids=str,
)
def test_nothing_goes_on_with_what_is_not_the_last(between: list[object]) -> None:
    compaction = Compaction()
    part = {"text": "t", "metadata": {"agui_block_id": "b"}}
    compaction.add([3, "new", {"artifactId": "a", "parts": [part]}])
    compaction.add(between)
    compaction.add([5, "add", {"artifactId": "a", "parts": [part]}])
    assert compaction.flush()[2] == [5, "add", {"artifactId": "a", "parts": [part]}]


def test_a_chunk_that_states_more_than_text_is_kept_whole() -> None:
    compaction = Compaction()
    chunk = {"artifactId": "a", "parts": [{"text": "t"}]}
    compaction.add([3, "new", chunk])
    compaction.add([4, "add", {**chunk, "name": "n"}])
    compaction.add([5, "add", {**chunk, "parts": [{"text": "t"}, {"text": "u"}]}])
    assert [item[1] for item in compaction.flush()] == ["new", "add", "add"]


def test_random_bytes_never_break_a_batch() -> None:
    chance = random.Random(1)
    log = begun()
    log.append([log.chunk("a", "some text"), log.status(WORKING, metadata={"x": [1]})])
    log.append([events.bare_message("c", {"messageId": "m", "parts": []})])
    intact = arrivals(log)
    for _ in range(1500):
        victim = chance.choice(intact)
        body = bytearray(victim.msg.data)
        for _ in range(chance.randint(1, 4)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        headers = dict(victim.msg.headers or {})
        if chance.random() < 0.2:
            headers[chance.choice(list(headers))] = chance.choice(["", "x", "-1", "9" * 30])
        broken = arrival(9, victim.msg.subject, bytes(body), headers)
        Batches(SUBJECTS, 5, 30).build([*intact[:-1], broken], Progress())


def test_an_unexpected_event_becomes_a_dead_letter_and_others_continue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bad, good = begun(), begun()
    read_change = change.read_change

    def stumbling(event: Json, generation: int) -> Change:
        if event.get("statusUpdate", {}).get("taskId") == bad.key.task:
            raise OverflowError("no such number")
        return read_change(event, generation)

    monkeypatch.setattr(module, "read_change", stumbling)
    batch = Batches(SUBJECTS, 5, 30).build([*arrivals(bad), *arrivals(good)], Progress())
    [received] = batch.letters
    assert (received.task, received.reason) == (
        bad.key.task,
        "event 2: OverflowError: no such number",
    )
    assert set(batch.touched) == {bad.key, good.key}
