import orjson
import pytest

from headrace.model import events, parts
from headrace.model.entry import Stamp, parse_entry
from headrace.model.events import INPUT_SCHEMA, INTERRUPTS, PENDING_TOOL_CALLS, Json
from headrace.model.task import (
    AUTH_REQUIRED,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    WORKING,
)
from headrace_gateway.protocols.agui.fold import Fold
from tests.support.agui.logs import KEY, RUN, THREAD, AguiLog, hinted
from tests.support.legal_logs import LegalLog


def last(log: AguiLog) -> Json:
    return log.agui_events()[-1]


def finished(**more: object) -> Json:
    return {"type": "RUN_FINISHED", "threadId": THREAD, "runId": RUN, **more}


def test_a_run_starts_with_the_clients_ids_and_the_protocols_version() -> None:
    assert AguiLog.started(parentRunId="p").agui_events() == [
        {
            "type": "RUN_STARTED",
            "threadId": THREAD,
            "runId": RUN,
            "protocolVersion": "1.0",
            "parentRunId": "p",
        }
    ]


def test_a_run_of_another_protocol_gets_ids_from_its_task() -> None:
    log = LegalLog(KEY)
    log.submit("hello")
    [frame] = Fold(1).read(log.parsed()[0])
    assert frame.event["threadId"] == log.context
    assert frame.event["runId"] == f"{KEY.task}.1"


def test_completed_is_success() -> None:
    assert last(AguiLog.started().end(COMPLETED)) == finished()


@pytest.mark.parametrize(("state", "code"), [(FAILED, "failed"), (REJECTED, "rejected")])
def test_failure_and_rejection_are_errors(state: str, code: str) -> None:
    output = parts.notice_part("because", parts.ERROR)
    error = {"type": "RUN_ERROR", "message": "because", "code": code}
    assert last(AguiLog.started().end(state, output)) == error
    assert last(AguiLog.started().end(state))["message"] != ""


def test_what_is_open_ends_before_an_error_too() -> None:
    log = AguiLog.started().show(parts.text_part("x", "b-1"))
    kinds = [event["type"] for event in log.end(FAILED).agui_events()]
    assert kinds[-2:] == ["TEXT_MESSAGE_END", "RUN_ERROR"]


def test_canceled_is_an_outcome() -> None:
    assert last(AguiLog.started().end(CANCELED)) == finished(outcome={"type": "cancelled"})


def test_an_older_client_learns_only_that_a_canceled_run_is_over() -> None:
    assert last(AguiLog.started(protocolVersion=None).end(CANCELED)) == finished()


@pytest.mark.parametrize(
    ("state", "reason"), [(INPUT_REQUIRED, "input_required"), (AUTH_REQUIRED, "auth_required")]
)
def test_waiting_is_an_interrupt(state: str, reason: str) -> None:
    log = AguiLog.started().end(
        state, {"text": "Which?"}, metadata={INPUT_SCHEMA: {"type": "string"}}
    )
    assert last(log)["outcome"] == {
        "type": "interrupt",
        "interrupts": [
            {
                "id": "run-1.3",
                "reason": reason,
                "message": "Which?",
                "responseSchema": {"type": "string"},
            }
        ],
    }
    assert any(event.get("delta") == "Which?" for event in log.agui_events())


def waiting(metadata: Json, **given: object) -> AguiLog:
    log = AguiLog.started(**given)
    log.append([log.status(INPUT_REQUIRED, metadata=metadata)], state=INPUT_REQUIRED)
    return log


def test_an_agents_own_interrupts_are_emitted_unchanged() -> None:
    interrupts = [{"id": "i-1", "reason": "tool_call", "toolCallId": "c-1"}]
    outcome = last(waiting({INTERRUPTS: interrupts}))["outcome"]
    assert outcome == {"type": "interrupt", "interrupts": interrupts}


def test_tool_calls_that_the_client_carries_out_are_pending_not_interrupting() -> None:
    pending = {PENDING_TOOL_CALLS: ["c-1"]}
    outcome = {"type": "success", "pendingToolCallIds": ["c-1"]}
    assert last(waiting(pending)) == finished(outcome=outcome)
    assert last(waiting(pending, protocolVersion="0.9")) == finished()


def test_usage_is_added_up_per_model() -> None:
    log = AguiLog.started()
    log.say(hinted(parts.USAGE, {"model": "m", "inputTokens": 3, "outputTokens": -1}))
    log.say(hinted(parts.USAGE, {"model": "m", "inputTokens": 4, "reasoningTokens": 2.0}))
    log.say(hinted(parts.USAGE, {"model": "n", "inputTokens": True, "totalTokens": 9}))
    log.say(hinted(parts.USAGE, {"model": "o"}))
    assert last(log.end()) == finished(
        usage=[
            {"model": "m", "inputTokens": 7, "reasoningTokens": 2},
            {"model": "n", "totalTokens": 9},
        ]
    )


def test_a_second_input_ends_the_run_before_it() -> None:
    log = AguiLog.started().show(parts.text_part("x", "b-1"))
    log.submit("something else")
    assert last(log) == finished(outcome={"type": "cancelled"})
    assert log.agui_events(run=log.run)[0]["type"] == "RUN_STARTED"


def test_a_follow_up_is_a_run_of_its_own() -> None:
    log = AguiLog.started().end(INPUT_REQUIRED, {"text": "Which?"})
    log.submit("that one", {"headrace.agui": {"runId": "run-2", "protocolVersion": "1.0"}})
    log.begin_attempt()
    log.show(parts.text_part("Thanks", "b-2")).end()
    events = log.agui_events(run=4)
    assert [event.get("runId") for event in (events[0], events[-1])] == ["run-2", "run-2"]
    assert log.frames(run=4)[0].place == (4, 0)


def test_nothing_follows_the_end() -> None:
    log = AguiLog.started().end(INPUT_REQUIRED)
    frames = log.frames()
    log.submit("go on")
    assert log.frames() == frames


def test_an_end_that_cannot_be_read_still_ends_the_run() -> None:
    stamp = Stamp("abcdefgh", 3, "w", INPUT_REQUIRED, 1, 1)
    fold = Fold(1)
    for entry in AguiLog.started().parsed():
        fold.read(entry)
    # A queued message that is taken ends nothing, whatever the state.
    status = {"status": {"state": INPUT_REQUIRED}, "metadata": {events.TAKEN: 1}}
    broken = parse_entry("s", stamp.headers(), orjson.dumps({"statusUpdate": status}), 3, "")
    assert fold.read(broken)[-1].event["type"] == "RUN_ERROR"
    assert fold.over


def test_a_log_that_breaks_off_before_it_began_is_an_error() -> None:
    [frame] = Fold(1).broken("log_lost", "gone")
    assert frame.event == {"type": "RUN_ERROR", "message": "gone", "code": "log_lost"}


def test_times_are_those_of_the_log() -> None:
    log = AguiLog.started()
    log.append([log.status(WORKING, {"messageId": "m", "parts": [{"text": "x"}]})])
    assert {frame.event["timestamp"] for frame in log.frames()} == {1767225600000}


def test_a_fold_without_its_input_has_no_task() -> None:
    log = AguiLog.started().show(parts.text_part("x", "b-1")).end()
    fold = Fold(1)
    assert [fold.read(entry) for entry in log.parsed()[1:]] == [[], [], []]
    assert not fold.over
