"""The benchmark counts whole answers only."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from tests.benchmarks.bindings import JSON_RPC, REST, Binding
from tests.benchmarks.whole import (
    Broken,
    check_question,
    check_read,
    check_reply,
    check_stream,
    check_task,
    frames,
)

type Json = dict[str, Any]

TASK: Json = {"task": {"id": "t", "status": {"state": "TASK_STATE_SUBMITTED"}}}
WORKING: Json = {"statusUpdate": {"status": {"state": "TASK_STATE_WORKING"}}}
COMPLETED: Json = {"statusUpdate": {"status": {"state": "TASK_STATE_COMPLETED"}}}
FAILED: Json = {"statusUpdate": {"status": {"state": "TASK_STATE_FAILED"}}}


def chunk(text: str) -> Json:
    return {"artifactUpdate": {"artifact": {"artifactId": "a", "parts": [{"text": text}]}}}


def body(events: Sequence[Json], binding: Binding = REST, newline: bytes = b"\n") -> bytes:
    wrapped = [
        event if binding is REST else {"jsonrpc": "2.0", "id": 1, "result": event}
        for event in events
    ]
    lines = [b"id: x:1", b"data: %b", b"", b""]
    return b"".join(newline.join(lines) % orjson.dumps(event) for event in wrapped)


def checked(*events: Json, chunks: int = 2) -> int:
    return check_stream(body(events), chunks, REST.result)


@pytest.mark.parametrize("binding", [REST, JSON_RPC], ids=lambda binding: str(binding.name))
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_whole_stream_counts(binding: Binding, newline: bytes) -> None:
    events = [TASK, WORKING, chunk("1 "), chunk("2 "), COMPLETED]
    assert check_stream(body(events, binding, newline), 2, binding.result) == 5


def test_what_a_server_sends_beyond_the_run_does_not_count() -> None:
    assert checked(TASK, WORKING, WORKING, chunk("1 "), chunk("2 "), chunk(""), COMPLETED) == 5


def test_comments_are_no_events() -> None:
    assert frames(b": keep-alive\n\ndata: {}\n\n: bye\n\n") == [b"{}"]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [WORKING, chunk("1 "), chunk("2 "), COMPLETED],
        [TASK, chunk("1 "), COMPLETED],
        [TASK, chunk("2 "), chunk("1 "), COMPLETED],
        [TASK, chunk("1 "), chunk("1 "), chunk("2 "), COMPLETED],
        [TASK, chunk("1 "), chunk("2 "), chunk("3 "), COMPLETED],
        [TASK, chunk("1 2 "), COMPLETED],
        [TASK, chunk("1 "), chunk("2 ")],
        [TASK, chunk("1 "), chunk("2 "), FAILED],
    ],
    ids=[
        "empty",
        "no task",
        "missing",
        "swapped",
        "twice",
        "too many",
        "in one",
        "no end",
        "failed",
    ],
)
def test_a_stream_that_is_not_whole_is_broken(events: list[Json]) -> None:
    with pytest.raises(Broken):
        checked(*events)


def test_a_stream_that_ends_within_an_event_is_broken() -> None:
    whole = body([TASK, chunk("1 "), chunk("2 "), COMPLETED])
    with pytest.raises(Broken):
        check_stream(whole[:-1], 2, REST.result)


def test_an_error_in_place_of_a_stream_is_broken() -> None:
    error = orjson.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603}})
    with pytest.raises(Broken):
        check_stream(error, 1, JSON_RPC.result)
    with pytest.raises(Broken):
        check_task(error, 1, JSON_RPC.result)


def task(state: str, texts: Sequence[str]) -> Json:
    artifacts = [{"artifactId": "a", "parts": [{"text": text} for text in texts]}]
    return {"id": "t", "status": {"state": state}, "artifacts": artifacts}


def answered(state: str, texts: Sequence[str]) -> bytes:
    return orjson.dumps({"task": task(state, texts)})


@pytest.mark.parametrize("texts", [["1 ", "2 "], ["1 2 "]], ids=["in parts", "merged"])
def test_an_awaited_task_is_whole_however_its_parts_are_cut(texts: list[str]) -> None:
    check_task(answered("TASK_STATE_COMPLETED", texts), 2, REST.result)


@pytest.mark.parametrize(
    ("state", "texts"),
    [("TASK_STATE_COMPLETED", ["1 "]), ("TASK_STATE_WORKING", ["1 ", "2 "])],
)
def test_an_awaited_task_that_lacks_something_is_broken(state: str, texts: list[str]) -> None:
    with pytest.raises(Broken):
        check_task(answered(state, texts), 2, REST.result)


def test_a_task_that_was_read_is_whole() -> None:
    check_read(orjson.dumps(task("TASK_STATE_COMPLETED", ["1 ", "2 "])), "t", 2, REST.result)


@pytest.mark.parametrize(
    ("state", "texts", "expected"),
    [
        ("TASK_STATE_COMPLETED", ["1 "], "t"),
        ("TASK_STATE_WORKING", ["1 ", "2 "], "t"),
        ("TASK_STATE_COMPLETED", ["1 ", "2 "], "another"),
    ],
)
def test_a_read_of_less_or_of_another_task_is_broken(
    state: str, texts: list[str], expected: str
) -> None:
    with pytest.raises(Broken):
        check_read(orjson.dumps(task(state, texts)), expected, 2, REST.result)


def test_a_question_is_a_task_that_waits() -> None:
    assert check_question(answered("TASK_STATE_INPUT_REQUIRED", []), REST.result) == "t"
    with pytest.raises(Broken):
        check_question(answered("TASK_STATE_COMPLETED", []), REST.result)


def test_a_reply_ends_the_task_with_the_question() -> None:
    check_reply(answered("TASK_STATE_COMPLETED", ["Hello, ", "Bob!"]), "t", REST.result)


@pytest.mark.parametrize(
    ("state", "texts", "expected"),
    [
        ("TASK_STATE_COMPLETED", ["Hello, Ann!"], "t"),
        ("TASK_STATE_INPUT_REQUIRED", ["Hello, Bob!"], "t"),
        ("TASK_STATE_COMPLETED", ["Hello, Bob!"], "another"),
    ],
)
def test_a_reply_that_ends_nothing_or_another_task_is_broken(
    state: str, texts: list[str], expected: str
) -> None:
    with pytest.raises(Broken):
        check_reply(answered(state, texts), expected, REST.result)
