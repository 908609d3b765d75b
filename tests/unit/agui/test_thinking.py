"""Reasoning as THINKING events, for clients that asked for them."""

import json

import pytest
from hypothesis import given

from headrace.events import Json
from headrace.parts import thinking_part
from headrace_gateway.agui.extras import in_query
from headrace_gateway.agui.leads import AsOfNow
from headrace_gateway.agui.refusal import InputInvalid
from headrace_gateway.agui.run_frames import RunFrames
from headrace_gateway.agui.run_input import RunInput
from tests.unit.agui.agui_logs import AguiLog, agui_logs, unhurried
from tests.unit.agui.test_run_input import INPUT

ASKED: Json = {"forwardedProps": {"headrace": {"thinking": True}}}
OPENS = ["THINKING_START", "THINKING_TEXT_MESSAGE_START"]
CLOSES = ["THINKING_TEXT_MESSAGE_END", "THINKING_END"]


def kinds(told: list[Json]) -> list[str]:
    return [event["type"] for event in told]


def test_they_say_what_reasoning_events_say_without_naming_it() -> None:
    log = AguiLog.started(**ASKED).say(thinking_part("Hm", "t", title="Why", encrypted="sealed"))
    told = log.say(thinking_part(".", "t", end=True)).end().told()[1:-1]
    piece = "THINKING_TEXT_MESSAGE_CONTENT"
    assert kinds(told) == [*OPENS, piece, piece, *CLOSES]
    assert told[0]["title"] == "Why"
    assert "".join(event.get("delta", "") for event in told) == "Hm."
    assert not any("messageId" in event for event in told)


def test_one_block_is_told_at_a_time() -> None:
    log = AguiLog.started(**ASKED).say(thinking_part("a", "x")).say(thinking_part("b", "y"))
    told = kinds(log.say(thinking_part("c", "x")).end().told())[1:-1]
    assert told == [*OPENS, "THINKING_TEXT_MESSAGE_CONTENT", *CLOSES] * 3


def test_who_comes_back_amid_a_thought_is_told_that_it_is_open() -> None:
    log = AguiLog.started(**ASKED).say(thinking_part("a", "x"))
    entries = log.parsed()
    frames = RunFrames(1, AsOfNow(entries[-1].last_generation))
    told = kinds([frame.event for entry in entries for frame in frames.read(entry)])
    assert told == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", *OPENS]


@unhurried
@given(agui_logs(**ASKED))
def test_whatever_is_said_they_are_in_order_and_nothing_else_is_reasoning(log: AguiLog) -> None:
    is_open = False
    for kind in (frame.event["type"] for frame in log.frames()):
        assert not kind.startswith("REASONING") or kind == "REASONING_ENCRYPTED_VALUE"
        if kind == "THINKING_TEXT_MESSAGE_CONTENT":
            assert is_open
        if kind in {"THINKING_START", "THINKING_END"}:
            assert is_open == (kind == "THINKING_END")
            is_open = not is_open
        assert not (is_open and kind in {"RUN_FINISHED", "RUN_ERROR"}), kind


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, set()),
        ({"thinking": "true"}, {"thinking"}),
        ({"raw": "1", "thinking": ""}, {"raw", "thinking"}),
        ({"raw": "false", "thinking": "0", "format": "x"}, set()),
    ],
)
def test_the_query_may_ask_too(query: dict[str, str], wanted: set[str]) -> None:
    extras = in_query(query)
    asked = RunInput.read(json.dumps(INPUT).encode(), extras)
    props = asked.metadata["headrace.agui"].get("forwardedProps", {})
    assert extras == wanted
    assert props.get("headrace", {}) == dict.fromkeys(wanted, True)


def test_a_query_that_says_neither_yes_nor_no_is_refused() -> None:
    with pytest.raises(InputInvalid, match="raw: must be true or false"):
        in_query({"raw": "perhaps"})


@pytest.mark.parametrize("props", [[], "x", {"headrace": 3}])
def test_a_query_can_ask_nothing_of_props_that_are_no_object(props: object) -> None:
    body = json.dumps({**INPUT, "forwardedProps": props}).encode()
    with pytest.raises(InputInvalid, match="must be an object"):
        RunInput.read(body, frozenset({"raw"}))
    assert RunInput.read(body)
