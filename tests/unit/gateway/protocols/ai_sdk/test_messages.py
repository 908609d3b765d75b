"""What the client shows of a log, by the rules of its library."""

from headrace.model import events, parts
from headrace.model.events import Json
from headrace.model.run_ids import run_digest, unique_id
from headrace.model.task import AUTH_REQUIRED, CANCELED, FAILED, INPUT_REQUIRED, WORKING
from headrace_gateway.feeds import FeedBlock
from headrace_gateway.protocols.ai_sdk.history import messages_of
from headrace_gateway.protocols.ai_sdk.renderer import (
    Beginning,
    FromInput,
    MessageRenderer,
    WholeMessage,
)
from tests.support.agui.logs import KEY, AguiLog, hinted
from tests.support.ui_messages import UiMessage, chunks_of


def chunks(log: AguiLog, beginning: Beginning | None = None) -> list[Json]:
    renderer = MessageRenderer(KEY.task, beginning or FromInput(1))
    frames = [frame for one in log.parsed() for frame in renderer.render([FeedBlock(one)], 0)]
    return chunks_of(frames)


def shown(log: AguiLog, beginning: Beginning | None = None) -> UiMessage:
    return UiMessage().take_all(chunks(log, beginning))


def states(message: UiMessage) -> list[tuple[str, str]]:
    return [(one["type"], one["state"]) for one in message.parts if one["type"].startswith("tool-")]


def call_id(own: str, run: int = 1, number: int = 1) -> str:
    return unique_id(own, run_digest(KEY.task, run), number)


def ask(log: AguiLog, *interrupts: Json, calls: list[str] | None = None) -> AguiLog:
    metadata = {events.INTERRUPTS: list(interrupts), events.PENDING_TOOL_CALLS: calls or []}
    message = {"messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": "Well?"}]}
    log.append([log.status(INPUT_REQUIRED, message, metadata)], state=INPUT_REQUIRED)
    return log


def answer(log: AguiLog, *content: Json) -> int:
    """Append an input of `content`; return its generation."""
    log.submit()
    message = {"messageId": "a", "role": "ROLE_USER", "parts": list(content)}
    log.messages[-1] = (log.messages[-1][0], [log.status("TASK_STATE_SUBMITTED", message)])
    log.begin_attempt()
    return log.run


APPROVAL = {"id": "call_1", "toolCallId": "call_1", "message": "Pay 3?"}


def decision(approved: bool) -> Json:  # noqa: FBT001 - the user's word
    metadata = {parts.INTERRUPT_ID: "call_1", parts.RESUME_STATUS: "resolved"}
    return {"data": {"approved": approved, "reason": "so"}, "metadata": metadata}


def test_a_new_attempt_takes_back_what_was_not_saved() -> None:
    log = AguiLog.started().say(hinted(parts.STATE_SNAPSHOT, {"count": 5}))
    saved = log.shown([parts.text_part("saved ", "b-1")], "b-1", append=False)
    log.append([saved], checkpoint=True)
    log.show(parts.text_part("lost", "b-1"), append=True)
    log.say(parts.tool_call_part("search", {}, "c-1"))
    log.say(hinted(parts.STATE_SNAPSHOT, {"count": 9}))
    log.begin_attempt()
    log.show(parts.text_part("again", "b-1"), append=True)
    log.say(hinted(parts.STATE_DELTA, [{"op": "add", "path": "/more", "value": 1}]))
    message = shown(log.end())
    assert message.text == "saved again"
    assert [one["type"] for one in message.parts] == ["step-start", "data-state", "text"]
    assert message.parts[1]["data"] == {"count": 5, "more": 1}


def test_an_artifact_that_begins_again_replaces_its_text() -> None:
    log = (
        AguiLog.started()
        .show(parts.text_part("first", "b-1"))
        .show(parts.text_part("other", "b-2"), artifact="b-2")
    )
    message = shown(log.show(parts.text_part("second", "b-1")).end())
    assert sorted(one["text"] for one in message.parts if one["type"] == "text") == [
        "other",
        "second",
    ]


def test_a_call_of_the_client_is_its_own_once_the_run_waits_for_it() -> None:
    log = AguiLog.started().say(parts.tool_call_part("paint", {"colour": "red"}, "call_1"))
    assert shown(log).asked == []
    ask(log, calls=["call_1"])
    message = shown(log)
    assert (message.asked, message.finish) == ([call_id("call_1")], "tool-calls")
    run = answer(log, parts.tool_result_part("call_1", "done"))
    log.say(parts.tool_call_part("paint", {"colour": "blue"}, "call_1"))
    ask(log, calls=["call_1"])
    going_on = chunks(log, FromInput(run))
    assert going_on[0] == {"type": "start", "messageId": message.id}
    assert UiMessage(parts=message.parts).take_all(going_on).asked == [call_id("call_1", run)]
    again = shown(log, WholeMessage(log.generation))
    assert again.asked == [call_id("call_1", run)]
    assert states(again) == [("tool-paint", "output-available"), ("tool-paint", "input-available")]


def test_an_approval_is_asked_for_and_granted() -> None:
    log = AguiLog.started().say(parts.tool_call_part("pay", {"amount": 3}, "call_1"))
    ask(log, APPROVAL)
    message = shown(log)
    assert (states(message), message.text) == ([("tool-pay", "approval-requested")], "")
    answer(log, decision(approved=True))
    assert states(shown(log)) == [("tool-pay", "approval-responded")]
    log.say(parts.tool_result_part("call_1", "paid"))
    assert states(shown(log.end())) == [("tool-pay", "output-available")]


def test_a_refused_call_has_no_result() -> None:
    log = AguiLog.started().say(parts.tool_call_part("pay", {"amount": 3}, "call_1"))
    answer(ask(log, APPROVAL), decision(approved=False))
    log.say(parts.tool_result_part("call_1", "", "the user said no"))
    assert states(shown(log.end())) == [("tool-pay", "output-denied")]


def test_a_question_is_text_and_its_answer_begins_another_message() -> None:
    log = ask(AguiLog.started(), {"id": "i", "message": "Well?", "reason": "input"})
    asked = shown(log)
    assert (asked.text, asked.finish) == ("Well?", "stop")
    assert asked.parts[-1]["data"]["id"] == "i"
    run = answer(log, {"text": "Ann"})
    log.say(parts.tool_result_part("unknown", 1))
    last = shown(log.end(), FromInput(run))
    assert last.id == f"{KEY.task}.{run}" != asked.id
    assert states(last) == [("tool-unknown", "output-available")]


def test_a_run_that_waits_for_credentials_goes_on_in_its_stream() -> None:
    log = AguiLog.started()
    log.append([log.status(AUTH_REQUIRED, None)], state=AUTH_REQUIRED)
    assert shown(log).finish == ""
    log.append([log.status(WORKING)], state=WORKING)
    assert shown(log.end()).finish == "stop"


def test_each_end_has_its_reason() -> None:
    failed, canceled = (
        AguiLog.started().end(FAILED, parts.notice_part("no money", parts.ERROR)),
        AguiLog.started(),
    )
    canceled.show(parts.text_part("half", "b-1")).end(CANCELED)
    assert (shown(failed).errors, shown(failed).finish) == (["no money"], "error")
    message = shown(canceled)
    assert (message.text, message.finish) == ("half", "interrupted")
    assert {"type": "abort", "reason": "canceled"} in chunks(canceled)


def test_files_pages_data_and_notices_are_parts_of_their_own() -> None:
    log = AguiLog.started()
    log.show({"raw": "YQ==", "mediaType": "image/png", "filename": "a.png"})
    log.show({"url": "https://example.com/"}, {"data": {"rows": 2}}, artifact="b-2")
    log.say(parts.notice_part("begins"))
    log.say(hinted(parts.CUSTOM, {"colour": "green"}, agui_custom_name="hint"))
    kinds = [(one["type"], one.get("url"), one.get("data")) for one in shown(log).parts[1:]]
    assert kinds == [
        ("file", "data:image/png;base64,YQ==", None),
        ("source-url", "https://example.com/", None),
        ("data-artifact", None, {"rows": 2}),
        ("data-status", None, {"text": "begins"}),
        ("data-hint", None, {"colour": "green"}),
    ]


def test_a_malformed_event_costs_itself_alone() -> None:
    log = AguiLog.started().say(hinted(parts.STATE_DELTA, [{"op": "remove", "path": "/none"}]))
    log.show(parts.text_part("whole", "b-1"))
    message = shown(log.end())
    assert (message.text, message.finish) == ("whole", "stop")
    assert message.parts[1]["type"] == "data-unreadable"


def test_usage_is_added_up_in_the_metadata_of_the_end() -> None:
    log = AguiLog.started().say(hinted(parts.USAGE, {"model": "m", "inputTokens": 2}))
    log.say(hinted(parts.USAGE, {"model": "m", "inputTokens": 3}))
    usage = {"usage": [{"model": "m", "inputTokens": 5}]}
    assert chunks(log.end())[-1] == {
        "type": "finish",
        "finishReason": "stop",
        "messageMetadata": usage,
    }


def test_a_message_that_steers_the_agent_is_shown_where_it_arrived() -> None:
    log = AguiLog.started().show(parts.text_part("first ", "b-1"))
    message = {"messageId": "u-2", "role": "ROLE_USER", "parts": [{"text": "faster"}]}
    log.append([events.taken(KEY.task, log.context, message, 2)], state=WORKING)
    assert shown(log).parts[-1]["parts"] == [{"type": "text", "text": "faster"}]


def test_the_text_of_a_run_that_a_later_one_follows_is_done() -> None:
    log = AguiLog.started().show(parts.text_part("first", "b-1"))
    answer(log, {"text": "more"})
    log.show(parts.text_part("second", "b-2"), artifact="b-2")
    found = messages_of(KEY.task, log.parsed())
    texts = [part for one in found for part in one["parts"] if "state" in part]
    assert [(one["text"], one["state"]) for one in texts] == [
        ("first", "done"),
        ("second", "streaming"),
    ]
