from headrace.model import parts
from headrace.model.events import Json
from headrace_gateway.protocols.agui.attempts import NAME
from tests.support.agui.client_rules import Client
from tests.support.agui.logs import GIVEN, AguiLog, hinted


def since_attempt(log: AguiLog) -> list[Json]:
    """Return what follows the CUSTOM event that announces the attempt, and that event."""
    events = log.agui_events()
    at = next(n for n, event in enumerate(events) if event.get("name") == NAME)
    return events[at:]


def test_open_items_end_before_the_new_attempt_is_announced() -> None:
    log = AguiLog.started().show(parts.text_part("lost", "b-1"))
    log.say(hinted(parts.STEP_STARTED, agui_step_name="plan"))
    log.begin_attempt()
    assert [event["type"] for event in log.agui_events()[-4:]] == [
        "STEP_FINISHED",
        "TEXT_MESSAGE_END",
        "CUSTOM",
        "MESSAGES_SNAPSHOT",
    ]


def test_what_the_dead_attempt_emitted_is_taken_back() -> None:
    log = AguiLog.started().show(parts.text_part("lost", "b-1"))
    log.say(parts.tool_call_part("search", {}, "c-1"))
    log.begin_attempt()
    assert since_attempt(log) == [
        {"type": "CUSTOM", "name": NAME, "value": {"attempt": 2}},
        {"type": "MESSAGES_SNAPSHOT", "messages": GIVEN},
    ]


def test_the_new_attempt_may_use_the_same_ids() -> None:
    log = AguiLog.started()
    for text in ("first", "second"):
        if text == "second":
            log.begin_attempt()
        log.say(parts.thinking_part(text, "t-1"))
        log.say(parts.tool_call_part("search", {"q": text}, "c-1"))
        log.show(parts.text_part(text, "b-1"))
    client = Client(GIVEN).take_all(log.end().agui_events())
    assert [message.get("content") for message in client.messages[2:]] == ["second", "", "second"]
    [call] = next(m["toolCalls"] for m in client.messages if "toolCalls" in m)
    assert call["function"]["arguments"] == '{"q":"second"}'


def test_what_was_saved_with_a_checkpoint_stays() -> None:
    log = AguiLog.started()
    log.append([log.shown([parts.text_part("saved ", "b-1")], "b-1", append=False)])
    log.append([log.uttered([hinted(parts.STATE_SNAPSHOT, {"count": 5})])], checkpoint=True)
    log.show(parts.text_part("lost", "b-1"), append=True)
    log.say(hinted(parts.STATE_SNAPSHOT, {"count": 9}))
    log.begin_attempt()
    log.show(parts.text_part("again", "b-1"), append=True)
    client = Client(GIVEN).take_all(log.end().agui_events())
    assert client.messages[-1]["content"] == "saved again"
    assert client.state == {"count": 5}


def test_a_third_attempt_goes_back_to_the_same_checkpoint() -> None:
    log = AguiLog.started()
    log.append(
        [log.shown([parts.text_part("saved ", "b-1")], "b-1", append=False)], checkpoint=True
    )
    for text in ("second", "third"):
        log.begin_attempt()
        log.show(parts.text_part(text, "b-1"), append=True)
    client = Client(GIVEN).take_all(log.end().agui_events())
    assert client.messages[-1]["content"] == "saved third"


def test_state_that_did_not_change_is_not_sent_again() -> None:
    log = AguiLog.started().show(parts.text_part("lost", "b-1"))
    log.begin_attempt()
    assert "STATE_SNAPSHOT" not in [event["type"] for event in log.agui_events()]


def test_state_goes_back_to_the_clients_own() -> None:
    log = AguiLog.started().say(hinted(parts.STATE_SNAPSHOT, {"count": 9}))
    log.begin_attempt()
    assert {"type": "STATE_SNAPSHOT", "snapshot": {"count": 0}} in since_attempt(log)


def test_an_activity_that_is_gone_is_emptied() -> None:
    log = AguiLog.started().show(parts.file_part(b"abc"), artifact="f-1")
    log.begin_attempt()
    client = Client(GIVEN).take_all(log.end().agui_events())
    assert client.messages[-1]["content"] == {"artifactId": "f-1", "parts": []}


def test_reasoning_that_is_gone_does_not_linger() -> None:
    log = AguiLog.started().say(parts.thinking_part("lost", "t-1"))
    log.say(parts.thinking_part("lost too", "t-2"))
    log.begin_attempt()
    client = Client(GIVEN).take_all(log.end().agui_events())
    assert client.messages[2:] == [{"id": "t-1", "role": "reasoning", "content": ""}]


def test_the_first_attempt_is_not_announced() -> None:
    assert len(AguiLog.started().agui_events()) == 1
