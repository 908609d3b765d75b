"""What a webhook is progress says what the log says, in fewer pieces, and the same each time."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from headrace.model import events
from headrace.model.events import GENERATION, TRACEPARENT, Json
from headrace.model.fold import TaskFold
from headrace.model.task import CANCELED, COMPLETED, INPUT_REQUIRED, WORKING
from headrace.webhooks import WebhookProgress
from headrace_task_state.webhooks.deliveries import (
    MOST_BYTES,
    Continues,
    DeliveryBatcher,
    WebhookDelivery,
    both_working,
    extends,
)
from tests.support.legal_logs import LegalLog, legal_logs
from tests.support.task_states import folded, new_key


def grouped(
    log: LegalLog, progress: WebhookProgress | None = None, continues: Continues = extends
) -> list[WebhookDelivery]:
    grouping = DeliveryBatcher(progress or WebhookProgress(generation=0), continues)
    entries = [
        entry for entry in log.parsed() if entry.sequence > (progress.sequence if progress else 0)
    ]
    found = [delivery for entry in entries for delivery in grouping.add(entry)]
    return [*found, *grouping.rest()]


def answer(*chunks: str) -> LegalLog:
    log = LegalLog(new_key())
    log.submit()
    log.begin_attempt()
    for chunk in chunks:
        log.append([log.chunk("a", chunk)])
    log.append([log.status(COMPLETED)], state=COMPLETED)
    return log


def texts(deliveries: list[WebhookDelivery]) -> list[str]:
    updates = [one.event().get("artifactUpdate") for one in deliveries]
    return [part["text"] for update in updates if update for part in update["artifact"]["parts"]]


def test_a_delivery_belongs_to_the_trace_of_the_newest_input_also_when_continued() -> None:
    log = LegalLog(new_key())
    for trace in ("1", "2"):
        log.submit("hello", {TRACEPARENT: trace})
        log.begin_attempt()
        log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    log.submit("bye")
    whole = grouped(log)
    traces = [delivery.traceparent for delivery in whole]
    assert traces == ["1"] * 3 + ["2"] * 4
    for number, done in enumerate(whole, 1):
        progress = WebhookProgress(
            generation=done.generation, sequence=done.resume_after, traceparent=done.traceparent
        )
        assert [one.traceparent for one in grouped(log, progress)] == traces[number:]


@given(legal_logs())
def test_notifications_fold_into_the_same_task(log: LegalLog) -> None:
    if log.state == WORKING:
        # Of what an agent is saying right now, more stands in the status and less in the history.
        log.append([log.status(CANCELED)], state=CANCELED)
    fold = TaskFold()
    for delivery in grouped(log):
        fold.apply(delivery.event())
    assert fold.task() == folded(log)


@given(legal_logs())
def test_one_whole_task_is_sent_for_each_state_and_every_event_is_in_one(
    log: LegalLog,
) -> None:
    deliveries = grouped(log, continues=both_working)
    progress = [event for one in deliveries for event in one.events]
    assert progress == [event for entry in log.parsed() for event in entry.parsed()]
    assert [one.first for one in deliveries[1:]] == [one.generation + 1 for one in deliveries[:-1]]
    at_work = [both_working(one.events[0], one.events[-1]) for one in deliveries]
    assert all(len(one.events) == 1 for one, at in zip(deliveries, at_work, strict=True) if not at)


@given(legal_logs(), st.data(), st.sampled_from([extends, both_working]))
def test_continuing_anywhere_renders_the_rest_unchanged(
    log: LegalLog, data: st.DataObject, continues: Continues
) -> None:
    whole = grouped(log, continues=continues)
    done = data.draw(st.integers(0, len(whole) - 1))
    last = whole[done]
    progress = WebhookProgress(generation=last.generation, sequence=last.resume_after)
    rest = grouped(log, progress, continues)
    assert [d.generation for d in rest] == [d.generation for d in whole[done + 1 :]]


@given(legal_logs(), st.data(), st.sampled_from([extends, both_working]))
def test_a_delivery_under_way_ends_where_it_ended_when_more_has_come(
    log: LegalLog, data: st.DataObject, continues: Continues
) -> None:
    head = data.draw(st.integers(1, len(log.messages)))
    early = LegalLog(log.key, messages=log.messages[:head])
    *_, before, under_way = [None, *grouped(early, continues=continues)]
    assert under_way is not None
    progress = WebhookProgress(
        generation=before.generation if before else 0,
        sequence=before.resume_after if before else 0,
        until=under_way.generation,
        attempts=1,
    )
    again = grouped(log, progress, continues)[0]
    assert (again.generation, again.events) == (under_way.generation, under_way.events)


def test_an_answer_in_pieces_is_reported_as_one() -> None:
    deliveries = grouped(answer("Hel", "lo ", "world"))
    assert texts(deliveries) == ["Hello world"]
    assert [one.generation for one in deliveries] == [1, 2, 5, 6]
    update = deliveries[2].event()["artifactUpdate"]
    assert update["metadata"][GENERATION] == 5
    assert "append" not in update or update["append"] is False


def test_one_answer_is_bounded() -> None:
    piece = "x" * (MOST_BYTES // 3)
    deliveries = grouped(answer(*[piece] * 5))
    assert [len(text) // len(piece) for text in texts(deliveries)] == [2, 2, 1]


def test_other_things_in_between_keep_their_place() -> None:
    log = LegalLog(new_key())
    log.submit()
    log.begin_attempt()
    message: Json = {"messageId": "t", "role": "ROLE_AGENT", "parts": [{"text": "hm"}]}
    drafts = [log.chunk("a", "1"), log.chunk("a", "2"), log.status(WORKING, message)]
    log.append([*drafts, log.status(WORKING, message), log.chunk("a", "3"), log.chunk("b", "4")])
    kinds = [next(iter(one.event())) for one in grouped(log)[2:]]
    assert kinds == ["artifactUpdate", "statusUpdate", "artifactUpdate", "artifactUpdate"]
    assert texts(grouped(log)) == ["12", "3", "4"]


def test_an_ill_formed_event_is_sent_unchanged() -> None:
    log = LegalLog(new_key())
    log.submit()
    bodies: list[Json] = [{"artifactUpdate": {"append": True}}, {"statusUpdate": {}}, {"other": 1}]
    for body in bodies:
        log.append([events.Draft(*_split(body))])
        log.append([events.Draft(*_split(body))])
    assert len(grouped(log)) == 7


def _split(body: Json) -> tuple[bytes, bytes]:
    line = orjson.dumps(body)
    return line[:-1] + b',"n":', b"}"
