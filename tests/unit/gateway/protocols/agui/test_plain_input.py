from typing import Any

import pytest
from ag_ui.core import Message, RunAgentInput, Tool
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from headrace.model.events import Json
from headrace_gateway.protocols.agui.plain_input import (
    PlainItems,
    is_plain_message,
    is_plain_tool,
)

MESSAGE: TypeAdapter[Any] = TypeAdapter(Message)
TOOL = TypeAdapter(Tool)
INPUT = TypeAdapter(RunAgentInput)

CALL: Json = {"id": "c", "type": "function", "function": {"name": "paint", "arguments": "{}"}}
PLAIN: list[Json] = [
    {"id": "1", "role": "developer", "content": "d"},
    {"id": "2", "role": "system", "content": ""},
    {"id": "3", "role": "user", "content": "hello"},
    {"id": "4", "role": "assistant", "content": "hm"},
    {"id": "5", "role": "assistant", "toolCalls": [CALL, CALL]},
    {"id": "6", "role": "assistant", "content": "so", "toolCalls": []},
    {"id": "7", "role": "tool", "content": "ok", "toolCallId": "c"},
    {"id": "8", "role": "reasoning", "content": "why"},
]
OTHERS: list[Json] = [
    {"id": "9", "role": "user", "content": [{"type": "text", "text": "hello"}]},
    {"id": "10", "role": "user", "content": "hello", "name": None},
    {"id": "11", "role": "assistant", "content": None, "toolCalls": [CALL]},
    {"id": "12", "role": "activity", "activityType": "PLAN", "content": {"a": None}},
    {"id": "13", "role": "tool", "content": "ok", "tool_call_id": "c"},
    {"id": "14", "role": "assistant", "toolCalls": {}},
    {"id": "15", "role": "assistant", "toolCalls": [CALL], "name": None},
    {"id": "16", "role": "assistant", "toolCalls": [CALL, CALL | {"type": "other"}]},
    {"id": "17", "role": "assistant", "toolCalls": [CALL | {"metadata": None}]},
    {"id": "18", "role": "assistant", "toolCalls": [CALL | {"function": {"name": "paint"}}]},
    {"role": "x"},
]
PAINT: Json = {"name": "paint", "description": "paints", "parameters": {"type": "object"}}

VALUES = st.one_of(
    st.text(max_size=3), st.just("a"), st.none(), st.integers(), st.just([]), st.just({})
)
CALLS = st.lists(
    st.one_of(
        st.just(CALL),
        VALUES,
        st.fixed_dictionaries(
            {},
            optional={
                "id": VALUES,
                "type": st.sampled_from(["function", "other", None]),
                "function": st.dictionaries(st.sampled_from(["name", "arguments", "x"]), VALUES),
                "metadata": VALUES,
            },
        ),
    ),
    max_size=2,
)
ROLES = ["developer", "system", "assistant", "user", "tool", "activity", "reasoning", "x", 1, None]
MESSAGES = st.one_of(
    st.sampled_from([*PLAIN, *OTHERS]),
    VALUES,
    st.fixed_dictionaries(
        {"id": VALUES, "role": st.sampled_from(ROLES)},
        optional={
            **dict.fromkeys(["content", "toolCallId", "tool_call_id", "name", "more"], VALUES),
            "toolCalls": st.one_of(CALLS, VALUES),
        },
    ),
)
TOOLS = st.dictionaries(st.sampled_from(["name", "description", "parameters", "metadata"]), VALUES)


def returned(model: TypeAdapter[Any], item: object) -> Any:  # noqa: ANN401 - any JSON
    """Return what the model makes of an item; None if that is not valid."""
    try:
        return model.dump_python(model.validate_python(item), mode="json", by_alias=True)
    except ValidationError:
        return None


@pytest.mark.parametrize("message", PLAIN, ids=lambda message: message["id"])
def test_a_message_of_its_required_fields_is_plain(message: Json) -> None:
    assert is_plain_message(message)


@pytest.mark.parametrize("message", OTHERS, ids=str)
def test_another_message_is_not(message: Json) -> None:
    assert not is_plain_message(message)


def test_a_tool_of_all_its_fields_but_metadata_is_plain() -> None:
    assert is_plain_tool(PAINT)
    assert is_plain_tool(PAINT | {"parameters": True})
    for change in ({"parameters": None}, {"metadata": None}, {"description": None}):
        assert not is_plain_tool(PAINT | change)


@settings(deadline=None)
@given(MESSAGES)
def test_the_models_return_a_plain_message_unchanged(message: object) -> None:
    assert not is_plain_message(message) or returned(MESSAGE, message) == message


@settings(deadline=None)
@given(TOOLS)
def test_the_models_return_a_plain_tool_unchanged(tool: Json) -> None:
    assert not is_plain_tool(tool) or returned(TOOL, tool) == tool


@settings(deadline=None)
@given(st.lists(MESSAGES, max_size=6), st.one_of(st.lists(TOOLS, max_size=2), st.none()))
def test_the_models_need_no_plain_items(messages: list[Any], tools: list[Json] | None) -> None:
    body = {"threadId": "t", "runId": "r", "messages": messages, "tools": tools}
    plain = PlainItems(body)
    whole, rest = returned(INPUT, body), returned(INPUT, plain.without())
    assert (rest is None) == (whole is None)
    assert rest is None or plain.returned_to(rest) == whole
