from headrace.model import parts
from headrace.model.events import Json
from tests.support.agui.logs import AguiLog


def agui_events(log: AguiLog) -> list[Json]:
    return log.end().agui_events()[1:-1]


def kinds(events: list[Json]) -> list[str]:
    return [event["type"].removeprefix("REASONING_") for event in events]


def test_a_block_of_thinking_is_a_span_with_one_message() -> None:
    log = AguiLog.started().say(parts.thinking_part("Well", "t-1"))
    log.say(parts.thinking_part(", yes", "t-1", end=True))
    assert agui_events(log) == [
        {"type": "REASONING_START", "messageId": "t-1"},
        {"type": "REASONING_MESSAGE_START", "messageId": "t-1", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "t-1", "delta": "Well"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "t-1", "delta": ", yes"},
        {"type": "REASONING_MESSAGE_END", "messageId": "t-1"},
        {"type": "REASONING_END", "messageId": "t-1"},
    ]


def test_pieces_without_a_block_belong_to_their_message() -> None:
    part = {"text": "Hm", "metadata": {"agui_event_type": "thinking"}}
    log = AguiLog.started().say(part, message="m-1").say(part, message="m-1")
    events = agui_events(log)
    assert {event["messageId"] for event in events} == {"m-1"}
    assert kinds(events).count("START") == 1


def test_the_block_type_alone_states_that_it_is_thinking() -> None:
    part = {"text": "Hm", "metadata": {"agui_block_type": "thinking", "agui_block_id": "t-1"}}
    assert "MESSAGE_CONTENT" in kinds(agui_events(AguiLog.started().say(part)))


def test_older_names_are_read_and_a_title_goes_along() -> None:
    part = {"text": "Hm", "metadata": {"part_type": "thinking", "title": "Planning"}}
    start = agui_events(AguiLog.started().say(part))[0]
    assert start == {
        "type": "REASONING_START",
        "messageId": "m-1",
        "metadata": {"title": "Planning"},
    }


def test_a_signature_is_an_encrypted_value_even_without_text() -> None:
    part = parts.thinking_part("", "t-1", end=True)
    part["metadata"][parts.SIGNATURE] = "sealed"
    events = agui_events(AguiLog.started().say(part))
    assert kinds(events) == ["START", "MESSAGE_START", "ENCRYPTED_VALUE", "MESSAGE_END", "END"]
    assert events[2]["entityId"] == "t-1"


def test_thinking_and_text_of_one_id_are_two_messages() -> None:
    log = AguiLog.started().say(parts.thinking_part("Hm", "same", end=True))
    events = agui_events(log.show(parts.text_part("Hi", "same")))
    starts = [e["messageId"] for e in events if e["type"].endswith("MESSAGE_START")]
    assert starts == ["same", "same-text"]
