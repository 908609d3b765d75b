"""Read any protocol's event stream and check that each frame is valid."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
from a2a.compat.v0_3 import a2a_v0_3_pb2, types
from a2a.types import a2a_pb2
from ag_ui.core import Event as AguiEvent
from google.protobuf.json_format import ParseDict, ParseError
from pydantic import TypeAdapter

from tests.support.clients.bindings import Json

_FIELDS = frozenset({"id", "event", "data", "retry"})
_CURSOR = re.compile(r"([^/\s]+/)?[0-9a-z]{4,16}:[1-9][0-9]*(\.[0-9]+)?")
_OLD: TypeAdapter[Any] = TypeAdapter(
    types.Task | types.Message | types.TaskStatusUpdateEvent | types.TaskArtifactUpdateEvent
)
_AGUI: TypeAdapter[Any] = TypeAdapter(AguiEvent)
_ENDS = ("RUN_FINISHED", "RUN_ERROR")
_MOST = 200
"""Frames that are read of one stream: none that is drawn has as many."""


def frames_of(response: httpx.Response, *, may_wait: bool) -> list[dict[str, str]]:
    """Return a stream's frames to its end, by field.

    One that may wait for a user who never comes is read for as long as something comes at once.
    """
    found: list[dict[str, str]] = []
    try:
        for frame in _frames(response):
            found.append(frame)
            assert len(found) < _MOST, "a stream without end"
    except httpx.ReadTimeout:
        assert may_wait, f"a stream that ends no more, after {len(found)} frames"
    return found


def _frames(response: httpx.Response) -> Iterator[dict[str, str]]:
    frame: dict[str, str] = {}
    for line in response.iter_lines():
        if not line:
            if frame:
                yield frame
            frame = {}
        elif not line.startswith(":"):
            name, colon, value = line.partition(": ")
            assert colon, line
            assert name in _FIELDS, line
            frame[name] = value
    assert not frame, f"a stream that ends within a frame: {frame}"


def check_a2a(frames: list[dict[str, str]], *, is_rpc: bool, is_hector: bool) -> None:
    """Fail unless each frame has an event of 1.0, of 0.3 or of Hector's, or is its end."""
    for frame in frames:
        if frame == {"data": "[DONE]"} or frame.get("event") == "done":
            assert frame is frames[-1]
            continue
        if "data" not in frame:
            assert set(frame) == {"retry"}
            continue
        received: Json = json.loads(frame["data"])
        if is_rpc:
            assert received["jsonrpc"] == "2.0"
            if "error" in received:
                assert isinstance(received["error"]["code"], int)
                continue
            received = received["result"]
        assert _CURSOR.fullmatch(frame.get("id", "")), frame
        if is_hector:
            assert received["response"]["content"][0].keys()
            assert isinstance(received["message"]["parts"], list)
        else:
            check_event(received)


def check_event(event: Json) -> None:
    """Fail unless it is a StreamResponse of 1.0, what 0.3 has over JSON-RPC, or its protobuf's."""
    if "kind" in event:
        _OLD.validate_python(event)
        return
    assert len(event) == 1, event
    try:
        ParseDict(event, a2a_pb2.StreamResponse())
    except ParseError:
        ParseDict(event, a2a_v0_3_pb2.StreamResponse())


def check_dialect(frames: list[dict[str, str]]) -> None:
    """Fail unless each frame has an event of Hector's AG-UI dialect, or is the stream's end."""
    for frame in frames:
        if frame.get("data") == "[DONE]" or frame.get("event") == "done":
            assert frame is frames[-1]
            continue
        if "data" not in frame:
            assert set(frame) == {"retry"}
            continue
        received: Json = json.loads(frame["data"])
        if "jsonrpc" in received:
            # Where 0.3's clients want a stream, an error before its first event is one frame.
            assert isinstance(received["error"]["code"], int)
            continue
        assert received["type"] == f"AGUI_EVENT_TYPE_{frame['event'].upper()}"
        assert received["eventId"]
        assert _CURSOR.fullmatch(frame["id"]), frame


def check_agui(frames: list[dict[str, str]], *, to_its_end: bool) -> None:
    """Fail unless each frame is an event of AG-UI's, and the last one ends the run."""
    events: list[Json] = [json.loads(frame["data"]) for frame in frames if "data" in frame]
    for event in events:
        _AGUI.validate_python(event)
    if to_its_end:
        assert events[-1]["type"] in _ENDS
