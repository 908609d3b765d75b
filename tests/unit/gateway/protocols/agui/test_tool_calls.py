import pytest

from headrace.model import parts
from headrace.model.events import Json
from tests.support.agui.logs import AguiLog


def agui_events(log: AguiLog) -> list[Json]:
    return log.end().agui_events()[1:-1]


def of_kind(kind: str, events: list[Json]) -> list[Json]:
    return [event for event in events if event["type"] == kind]


def test_a_call_ends_with_its_arguments_and_its_result_comes_later() -> None:
    log = AguiLog.started().say(parts.tool_call_part("search", {"q": "é"}, "c-1"))
    log.say(parts.tool_result_part("c-1", "Found 5 files"))
    assert agui_events(log) == [
        {"type": "TEXT_MESSAGE_START", "messageId": "c-1-message", "role": "assistant"},
        {"type": "TEXT_MESSAGE_END", "messageId": "c-1-message"},
        {
            "type": "TOOL_CALL_START",
            "toolCallId": "c-1",
            "toolCallName": "search",
            "parentMessageId": "c-1-message",
        },
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c-1", "delta": '{"q":"é"}'},
        {"type": "TOOL_CALL_END", "toolCallId": "c-1"},
        {
            "type": "TOOL_CALL_RESULT",
            "messageId": "c-1-result",
            "toolCallId": "c-1",
            "content": "Found 5 files",
            "role": "tool",
        },
    ]


def test_the_open_text_message_makes_the_call() -> None:
    log = AguiLog.started().show(parts.text_part("Let me see. ", "b-1"))
    events = agui_events(log.say(parts.tool_call_part("search", {}, "c-1")))
    assert of_kind("TOOL_CALL_START", events)[0]["parentMessageId"] == "b-1"
    assert len(of_kind("TEXT_MESSAGE_START", events)) == 1


def test_calls_of_one_turn_are_made_by_one_message() -> None:
    log = AguiLog.started().say(parts.tool_call_part("a", {}, "c-1"))
    log.say(parts.tool_call_part("b", {}, "c-2"))
    log.say(parts.tool_result_part("c-1", 1))
    log.say(parts.tool_call_part("c", {}, "c-3"))
    parents = [e["parentMessageId"] for e in of_kind("TOOL_CALL_START", agui_events(log))]
    assert parents == ["c-1-message", "c-1-message", "c-3-message"]


def test_arguments_stream_until_the_block_ends() -> None:
    log = AguiLog.started().say(parts.tool_arguments_part('{"q"', "c-1", "search"))
    log.say(parts.tool_arguments_part(":1}", "c-1", "search", end=True))
    events = agui_events(log)
    assert [e["delta"] for e in of_kind("TOOL_CALL_ARGS", events)] == ['{"q"', ":1}"]
    assert events[-1] == {"type": "TOOL_CALL_END", "toolCallId": "c-1"}


@pytest.mark.parametrize(
    "closer",
    [parts.tool_call_part("search", {"q": 1}, "c-1"), parts.tool_result_part("c-1", "ok")],
    ids=["whole call", "result"],
)
def test_the_whole_call_or_the_result_ends_streamed_arguments(closer: Json) -> None:
    log = AguiLog.started().say(parts.tool_arguments_part('{"q":1}', "c-1", "search"))
    events = agui_events(log.say(closer))
    assert [e["delta"] for e in of_kind("TOOL_CALL_ARGS", events)] == ['{"q":1}']
    assert len(of_kind("TOOL_CALL_END", events)) == 1


def test_a_repeated_call_is_not_sent_again() -> None:
    call = parts.tool_call_part("search", {}, "c-1")
    events = agui_events(AguiLog.started().say(call).say(call))
    assert len(of_kind("TOOL_CALL_START", events)) == 1


def test_a_repeated_result_is_not_sent_again() -> None:
    result = parts.tool_result_part("c-1", "ok")
    events = agui_events(AguiLog.started().say(result).say(result))
    assert len(of_kind("TOOL_CALL_RESULT", events)) == 1


def test_a_failed_tool_gives_the_reason() -> None:
    log = AguiLog.started().say(parts.tool_call_part("search", {}, "c-1"))
    result = of_kind(
        "TOOL_CALL_RESULT", agui_events(log.say(parts.tool_result_part("c-1", "", "no")))
    )
    assert result[0]["content"] == "no"
    assert result[0]["metadata"] == {"error": "no"}


def test_an_older_client_gets_no_metadata_with_a_result() -> None:
    log = AguiLog.started(protocolVersion=None).say(parts.tool_result_part("c-1", "", "no"))
    assert "metadata" not in of_kind("TOOL_CALL_RESULT", agui_events(log))[0]


@pytest.mark.parametrize(
    ("content", "shown"), [({"words": 2}, '{"words":2}'), (["a"], '["a"]'), (7, "7"), (None, "")]
)
def test_a_result_that_is_no_text_is_shown_as_json(content: object, shown: str) -> None:
    events = agui_events(AguiLog.started().say(parts.tool_result_part("c-1", content)))
    assert of_kind("TOOL_CALL_RESULT", events)[0]["content"] == shown


def test_the_older_shape_of_a_call_is_read() -> None:
    part = {
        "data": {"data": {"name": "web_search", "input": '{"query":"weather"}'}},
        "metadata": {"part_type": "tool_call", "tool_call_id": "tc-123"},
    }
    events = agui_events(AguiLog.started().say(part))
    assert of_kind("TOOL_CALL_START", events)[0]["toolCallId"] == "tc-123"
    assert of_kind("TOOL_CALL_ARGS", events)[0]["delta"] == '{"query":"weather"}'


def test_a_sealed_call_that_streams_carries_its_value_behind_its_end() -> None:
    pieces = [
        parts.tool_arguments_part("{", "c-1", "search"),
        parts.tool_arguments_part("}", "c-1", encrypted="sealed", end=True),
    ]
    log = AguiLog.started()
    for piece in pieces:
        log.say(piece)
    ends, sealed = agui_events(log)[-2:]
    assert ends == {"type": "TOOL_CALL_END", "toolCallId": "c-1"}
    assert (sealed["type"], sealed["entityId"]) == ("REASONING_ENCRYPTED_VALUE", "c-1")


def test_a_sealed_call_carries_its_value() -> None:
    part = parts.tool_call_part("search", {}, "c-1")
    part["metadata"][parts.ENCRYPTED_VALUE] = "sealed"
    assert agui_events(AguiLog.started().say(part))[-1] == {
        "type": "REASONING_ENCRYPTED_VALUE",
        "subtype": "tool-call",
        "entityId": "c-1",
        "encryptedValue": "sealed",
    }
