"""Reasoning as THINKING events, for clients that asked for them."""

import dataclasses
import itertools
import json

import pytest
from hypothesis import given

from headrace.model.events import Draft, Json
from headrace.model.parts import thinking_part
from headrace.model.task import COMPLETED
from headrace_gateway.json_errors import InputInvalid
from headrace_gateway.protocols.agui.extras import in_query
from headrace_gateway.protocols.agui.run_frames import RunFrames, SnapshotStart
from headrace_gateway.protocols.agui.run_input import RunInput
from tests.support.agui.logs import AguiLog, agui_logs, unhurried
from tests.unit.gateway.protocols.agui.test_run_input import INPUT
from tests.unit.gateway.protocols.agui.test_subagents import asked, child

ASKED: Json = {"forwardedProps": {"headrace": {"thinking": True}}}
OPENS = ["THINKING_START", "THINKING_TEXT_MESSAGE_START"]
CLOSES = ["THINKING_TEXT_MESSAGE_END", "THINKING_END"]


def kinds(agui_events: list[Json]) -> list[str]:
    return [event["type"] for event in agui_events]


def test_they_have_the_content_of_reasoning_events_without_its_name() -> None:
    log = AguiLog.started(**ASKED).say(thinking_part("Hm", "t", title="Why", encrypted="sealed"))
    agui_events = log.say(thinking_part(".", "t", end=True)).end().agui_events()[1:-1]
    piece = "THINKING_TEXT_MESSAGE_CONTENT"
    assert kinds(agui_events) == [*OPENS, piece, piece, *CLOSES]
    assert agui_events[0]["title"] == "Why"
    assert "".join(event.get("delta", "") for event in agui_events) == "Hm."
    assert not any("messageId" in event for event in agui_events)


def test_one_block_is_sent_at_a_time() -> None:
    log = AguiLog.started(**ASKED).say(thinking_part("a", "x")).say(thinking_part("b", "y"))
    agui_events = kinds(log.say(thinking_part("c", "x")).end().agui_events())[1:-1]
    assert agui_events == [*OPENS, "THINKING_TEXT_MESSAGE_CONTENT", *CLOSES] * 3


def test_a_client_that_returns_within_a_thought_learns_that_it_is_open() -> None:
    log = AguiLog.started(**ASKED).say(thinking_part("a", "x"))
    entries = log.parsed()
    frames = RunFrames(1, SnapshotStart(entries[-1].last_generation))
    agui_events = kinds([frame.event for entry in entries for frame in frames.read(entry)])
    assert agui_events == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", *OPENS]


def blocks(agui_events: list[Json]) -> list[tuple[str, str]]:
    """Return who thought what, block by block; a block that opens inside another fails."""
    output = list[tuple[str, str]]()
    is_open = False
    for event in agui_events:
        kind, who = event["type"], event.get("subagentRunId", "")
        if kind == "THINKING_START":
            assert not is_open, f"{who} begins a block inside another one"
            is_open = True
            output.append((who, ""))
        elif kind.startswith("THINKING"):
            assert is_open, f"{kind} outside a block"
            assert output[-1][0] == who, f"{kind} of {who} in a block of {output[-1][0]}"
            output[-1] = who, output[-1][1] + event.get("delta", "")
            is_open = kind != "THINKING_END"
        assert not (is_open and kind in {"RUN_FINISHED", "RUN_ERROR"}), kind
    return output


def test_two_children_and_their_parent_think_in_turns() -> None:
    log = AguiLog.started(**ASKED, protocolVersion="1.0")
    for task in ("c-1", "c-2"):
        asked(log, task=task)
    child(log, thinking_part("a", "x"), task="c-1")
    child(log, thinking_part("b", "x"), task="c-2")
    log.say(thinking_part("c", "x"))
    child(log, thinking_part("d", "x"), task="c-1")
    child(log, thinking_part("e", "x", end=True), task="c-1")
    child(log, state=COMPLETED, task="c-1")
    child(log, thinking_part("f", "x"), task="c-2")
    agui_events = log.end().agui_events()
    assert blocks(agui_events) == [
        ("c-1", "a"),
        ("c-2", "b"),
        ("", "c"),
        ("c-1", "de"),
        ("c-2", "f"),
    ]


def test_a_block_left_open_by_a_child_that_ended_is_ended_once() -> None:
    log = AguiLog.started(**ASKED, protocolVersion="1.0")
    asked(log)
    child(log, thinking_part("a", "x"))
    child(log, state=COMPLETED)
    log.say(thinking_part("b", "x"))
    assert blocks(log.end().agui_events()) == [("c-1", "a"), ("", "b")]


def by_speaker(output: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Join what one speaker says in a row."""
    turns = itertools.groupby(output, key=lambda piece: piece[0])
    return [(who, "".join(text for _, text in turn)) for who, turn in turns]


def unasked(log: AguiLog) -> AguiLog:
    """Return the log as if its client had not asked for THINKING events."""
    stamp, [first] = log.messages[0]
    line = Draft(*(half.replace(b'"thinking":true', b'"thinking":false') for half in first))
    assert line != first
    return dataclasses.replace(log, messages=[(stamp, [line]), *log.messages[1:]])


@unhurried
@given(agui_logs(**ASKED))
def test_whatever_is_emitted_they_are_in_order_with_the_content_of_reasoning(log: AguiLog) -> None:
    agui_events = log.agui_events()
    named = {event["type"] for event in agui_events if event["type"].startswith("REASONING")}
    assert named <= {"REASONING_ENCRYPTED_VALUE"}
    thought = [
        (event.get("subagentRunId", ""), event["delta"])
        for event in unasked(log).agui_events()
        if event["type"] == "REASONING_MESSAGE_CONTENT"
    ]
    assert by_speaker(blocks(agui_events)) == by_speaker(thought)


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
    run_input = RunInput.read(json.dumps(INPUT).encode(), extras)
    props = run_input.metadata["headrace.agui"].get("forwardedProps", {})
    assert extras == wanted
    assert props.get("headrace", {}) == dict.fromkeys(wanted, True)


def test_a_query_that_states_neither_yes_nor_no_is_refused() -> None:
    with pytest.raises(InputInvalid, match="raw: must be true or false"):
        in_query({"raw": "perhaps"})


@pytest.mark.parametrize("props", [[], "x", {"headrace": 3}])
def test_a_query_can_ask_nothing_of_props_that_are_no_object(props: object) -> None:
    body = json.dumps({**INPUT, "forwardedProps": props}).encode()
    with pytest.raises(InputInvalid, match="must be an object"):
        RunInput.read(body, frozenset({"raw"}))
    assert RunInput.read(body)
