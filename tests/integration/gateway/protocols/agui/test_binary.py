"""The binary form, byte by byte, beside the official encoder."""

from base64 import b64decode
from typing import Any

import httpx

from headrace.model.events import Json
from headrace_gateway.protocols.agui.binary import encoded
from headrace_gateway.protocols.agui.encodings import BINARY
from headrace_gateway.protocols.agui.frame import AguiFrame
from tests.integration.gateway.protocols.agui.test_official_client import drawn_logs
from tests.support import javascript
from tests.support.agui.runs import path, run_input

_PART = {"type": "image", "source": {"type": "data", "value": "YQ==", "mimeType": "image/png"}}
_MESSAGES: list[Json] = [
    {"id": "d", "role": "developer", "content": "be brief", "name": "dev"},
    {"id": "s", "role": "system", "content": ""},
    {"id": "u", "role": "user", "content": "héllo 😀"},
    {"id": "p", "role": "user", "content": [{"type": "text", "text": "look"}, _PART]},
    {
        "id": "v",
        "role": "user",
        "content": [
            {
                "type": "video",
                "source": {"type": "url", "value": "https://x/v"},
                "metadata": {"n": 1},
            },
            {"type": "document", "source": {"type": "file", "value": "f", "provider": "p"}},
            {"type": "audio", "id": "a", "source": {"type": "url", "value": "u", "mimeType": "m"}},
        ],
    },
    {
        "id": "a",
        "role": "assistant",
        "toolCalls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        ],
    },
    {"id": "t", "role": "tool", "toolCallId": "c", "content": "no", "error": "boom"},
    {
        "id": "y",
        "role": "activity",
        "activityType": "plan",
        "content": {"10": 1, "9": [], "b": None},
    },
    {"id": "r", "role": "reasoning", "content": "hm", "encryptedValue": "sealed"},
]
_ANY = {"b": 1, "a": [1.5, -2, True, None, "x", {}, []], "2": "two", "10": "ten", "01": "", "": 0}
_PATCH = [
    {"op": "add", "path": "/a", "value": None},
    {"op": "replace", "path": "", "value": _ANY},
    {"op": "move", "path": "/b", "from": "/a"},
    {"op": "copy", "path": "/b", "from": "/a"},
    {"op": "remove", "path": "/b"},
    {"op": "test", "path": "/c", "value": False},
]
_INTERRUPT = {"id": "i", "reason": "r", "message": "?", "toolCallId": "c", "expiresAt": "2030"}
_RUN = {"threadId": "t", "runId": "r"}
_USAGE = [{"provider": "p", "model": "m", "inputTokens": 0, "outputTokens": 300, "totalTokens": 7}]
_BASE = {"timestamp": 1763647000123, "metadata": {"k": _ANY}, "rawEvent": _ANY}
_SUB = {"subagentRunId": "sub"}

EVENTS: list[Json] = [
    {"type": "RUN_STARTED", **_RUN, "protocolVersion": "1.0", "parentRunId": "p", **_BASE},
    {"type": "RUN_FINISHED", **_RUN, "result": _ANY, "usage": _USAGE},
    {"type": "RUN_FINISHED", **_RUN, "outcome": {"type": "success", "pendingToolCallIds": ["c"]}},
    {"type": "RUN_FINISHED", **_RUN, "outcome": {"type": "interrupt", "interrupts": [_INTERRUPT]}},
    {"type": "RUN_FINISHED", **_RUN, "outcome": {"type": "cancelled"}},
    {"type": "RUN_ERROR", "message": "boom", "code": "failed", "usage": _USAGE},
    {"type": "STEP_STARTED", "stepName": "s", **_SUB},
    {"type": "STEP_FINISHED", "stepName": "s"},
    {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant", "name": "n", **_BASE},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "héllo 😀", **_SUB},
    {"type": "TEXT_MESSAGE_END", "messageId": "m"},
    {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "role": "assistant", "delta": "d"},
    {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"},
    {"type": "TOOL_CALL_END", "toolCallId": "c"},
    {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "f", "delta": "d"},
    {
        "type": "TOOL_CALL_RESULT",
        "messageId": "m",
        "toolCallId": "c",
        "content": "",
        "role": "tool",
    },
    {"type": "STATE_SNAPSHOT", "snapshot": _ANY},
    {"type": "STATE_SNAPSHOT", "snapshot": [1, "a"]},
    {"type": "STATE_DELTA", "delta": _PATCH},
    {"type": "MESSAGES_SNAPSHOT", "messages": _MESSAGES},
    {
        "type": "ACTIVITY_SNAPSHOT",
        "messageId": "m",
        "activityType": "plan",
        "content": _ANY,
        "replace": False,
    },
    {"type": "ACTIVITY_DELTA", "messageId": "m", "activityType": "plan", "patch": _PATCH},
    {"type": "REASONING_START", "messageId": "m", **_SUB},
    {"type": "REASONING_MESSAGE_START", "messageId": "m", "role": "reasoning"},
    {"type": "REASONING_MESSAGE_CONTENT", "messageId": "m", "delta": "hm"},
    {"type": "REASONING_MESSAGE_END", "messageId": "m"},
    {"type": "REASONING_MESSAGE_CHUNK", "messageId": "m", "delta": "hm"},
    {"type": "REASONING_END", "messageId": "m"},
    {
        "type": "REASONING_ENCRYPTED_VALUE",
        "subtype": "message",
        "entityId": "m",
        "encryptedValue": "sealed",
    },
    {"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "n", "parentToolCallId": "c"},
    {
        "type": "SUBAGENT_FINISHED",
        "subagentRunId": "s",
        "result": 1,
        "outcome": {"type": "success"},
    },
    {
        "type": "SUBAGENT_FINISHED",
        "subagentRunId": "s",
        "outcome": {"type": "suspended", "interruptIds": ["i"]},
    },
    {"type": "SUBAGENT_ERROR", "subagentRunId": "s", "message": "boom", "code": "c"},
    {"type": "RAW", "event": _ANY, "source": "a2a"},
    {"type": "CUSTOM", "name": "n", "value": _ANY},
    {"type": "CUSTOM", "name": "n", "value": 12345678901234567890},
]


def officially(events: list[Json]) -> list[bytes]:
    done: Any = javascript.run("encode.mjs", events)
    assert done["warnings"] == []
    return [b64decode(frame) for frame in done["frames"]]


def ours(events: list[Json]) -> list[bytes]:
    return [encoded("log00000", [AguiFrame(1, 0, event)]) for event in events]


def test_every_event_is_encoded_as_the_official_encoder_does() -> None:
    for event, expected, got in zip(EVENTS, officially(EVENTS), ours(EVENTS), strict=True):
        assert got == expected, event


def test_every_type_of_the_protocol_is_among_them() -> None:
    assert len({event["type"] for event in EVENTS}) == 31


def test_folds_of_drawn_logs_are_too() -> None:
    events = [frame.event for log in drawn_logs(40) for frame in log.frames()]
    assert len(events) > 100
    for event, expected, got in zip(events, officially(events), ours(events), strict=True):
        assert got == expected, event


async def test_a_run_is_streamed_in_it_to_its_caller(http: httpx.AsyncClient) -> None:
    answer = await http.post(path("assistant"), json=run_input(), headers={"accept": BINARY})
    assert answer.headers["content-type"] == BINARY
    rest, sizes = answer.content, list[int]()
    while rest:
        size = int.from_bytes(rest[:4])
        sizes.append(size)
        rest = rest[4 + size :]
    assert len(sizes) > 10
    assert all(sizes)
