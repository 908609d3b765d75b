"""Events as they are written: JSON of A2A's shape, each with its generation."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model import events
from headrace.model.events import GENERATION, Draft, TextChunks
from headrace.model.task import SUBMITTED, WORKING

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=6
)
METADATA = st.dictionaries(TEXT, JSON, max_size=3)
GENERATIONS = st.integers(1, 10**12)


def read(draft: Draft, generation: int = 7) -> dict[str, Any]:
    line = draft.line(generation)
    assert b"\n" not in line
    assert b"\r" not in line
    assert len(line) <= draft.size
    (event,) = orjson.loads(line).items()
    return {"kind": event[0], **event[1]}


@given(METADATA, METADATA, GENERATIONS)
def test_a_draft_is_its_body_with_metadata_and_generation(
    body: dict[str, Any], metadata: dict[str, Any], generation: int
) -> None:
    event = read(events.draft("kind", {"x": body}, metadata), generation)
    assert event["x"] == body
    assert event["metadata"] == {**metadata, GENERATION: generation}


def test_a_relayed_event_has_its_own_generation_only() -> None:
    line = events.draft("kind", {"x": 1}, {GENERATION: 99, "other": 1}).line(5)
    assert line.count(GENERATION.encode()) == 1
    assert orjson.loads(line)["kind"]["metadata"] == {"other": 1, GENERATION: 5}


def test_generation_one_is_a_submitted_task_with_the_message_as_history() -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], "taskId": "x"}
    event = read(events.task_submitted("task", "context", message, {"kept": True}), 1)
    assert event["kind"] == "task"
    assert event["id"] == "task"
    assert event["contextId"] == "context"
    assert event["status"]["state"] == SUBMITTED
    assert event["history"] == [{**message, "taskId": "task", "contextId": "context"}]
    assert event["metadata"] == {"kept": True, GENERATION: 1}


def test_a_status_carries_its_message_where_there_is_one() -> None:
    bare = read(events.status_update("task", "context", WORKING))
    assert "message" not in bare["status"]
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": []}
    text = read(events.status_update("task", "context", WORKING, message))
    assert text["status"]["message"] == {**message, "taskId": "task", "contextId": "context"}


def test_flags_of_an_artifact_are_written_only_when_set() -> None:
    artifact = {"artifactId": "a", "parts": []}
    first = read(events.artifact_update("task", "context", artifact))
    assert not {"append", "lastChunk"} & first.keys()
    last = read(events.artifact_update("task", "context", artifact, append=True, last_chunk=True))
    assert last["append"] is last["lastChunk"] is True


def test_a_bare_message_keeps_its_metadata_beside_the_generation() -> None:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [], "metadata": {"k": 1}}
    event = read(events.bare_message("context", message), 2)
    assert event["kind"] == "message"
    assert event["metadata"] == {"k": 1, GENERATION: 2}
    assert event["contextId"] == "context"


@given(TEXT, METADATA, GENERATIONS)
def test_a_rendered_once_chunk_is_what_the_slow_way_makes(
    text: str, metadata: dict[str, Any], generation: int
) -> None:
    artifact = {"artifactId": "block", "parts": [{"text": text, "metadata": metadata}]}
    slow = events.artifact_update("task", "context", artifact, append=True)
    fast = TextChunks("task", "context", "block", metadata).draft(text)
    assert fast.line(generation) == slow.line(generation)


def test_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(TypeError):
        TextChunks("task", "context", "block", {}).draft("\ud800")
    with pytest.raises(TypeError):
        events.draft("kind", {"x": object()})


def test_times_are_utc_to_the_millisecond() -> None:
    assert len(events.now()) == len("2026-01-01T00:00:00.000Z")
    assert events.now().endswith("Z")
