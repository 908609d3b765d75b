"""Whether an answer is whole: only whole ones, and events of whole streams, count."""

from collections.abc import Callable, Sequence
from typing import Any

import orjson

type Json = dict[str, Any]

BESIDE_CHUNKS = 3
"""Events of a counter run that are no chunks: Task, WORKING, COMPLETED."""

_COMPLETED = "TASK_STATE_COMPLETED"
_INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"


class Broken(Exception):
    """A run is not what was asked for."""


def frames(body: bytes) -> list[bytes]:
    """Return the data of every server-sent event in `body`, CRLF or LF, comments left out.

    Raises:
        Broken: the body ends in the middle of an event.
    """
    *blocks, rest = body.replace(b"\r\n", b"\n").split(b"\n\n")
    if rest:
        raise Broken(f"ends within an event: {rest[:200]!r}")
    return [data for block in blocks if (data := _data(block)) is not None]


def _data(block: bytes) -> bytes | None:
    lines = [line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None


def check_stream(body: bytes, chunks: int, result: Callable[[Json], Json]) -> int:
    """Return how many events count in the stream of a counter run of `chunks`.

    What a chunk says behind its number is not looked at.

    A server that says more than the Task, WORKING, the chunks and COMPLETED gains nothing by it.

    Raises:
        Broken: the Task is not first, COMPLETED not last, or the chunks are not ``1 `` to ``N ``.
    """
    try:
        events = [result(orjson.loads(frame)) for frame in frames(body)]
    except ValueError as error:
        raise Broken(f"not a stream of events: {error}") from None
    return check_events(events, chunks)


def check_events(events: Sequence[Json], chunks: int) -> int:
    """Do the same for events that have been parsed."""
    if not events or "task" not in events[0]:
        raise Broken(f"the first event is no Task: {events[:1]}")
    _check_state(events[-1].get("statusUpdate", {}))
    artifacts = [
        event["artifactUpdate"]["artifact"] for event in events if "artifactUpdate" in event
    ]
    texts = [text for artifact in artifacts if (text := _text(artifact))]
    if [f"{text.split()[0]} " for text in texts] != _chunks(chunks):
        raise Broken(f"the {chunks} chunks are not whole: {len(texts)}, to {texts[-3:]}")
    return chunks + BESIDE_CHUNKS


def check_task(body: bytes, chunks: int, result: Callable[[Json], Json]) -> None:
    """Check the answer to a counter run of `chunks` whose end was awaited.

    Raises:
        Broken: it is no COMPLETED Task with the chunks in its artifacts.
    """
    _check_ended(_result(body, result).get("task", {}), "".join(_chunks(chunks)))


def check_read(body: bytes, task: str, chunks: int, result: Callable[[Json], Json]) -> None:
    """Check the answer to a read of `task`, a counter run of `chunks` that has ended.

    Raises:
        Broken: it is another Task, not COMPLETED, or lacks some of the chunks.
    """
    found = _result(body, result)
    _check_id(found, task)
    _check_ended(found, "".join(_chunks(chunks)))


def check_question(body: bytes, result: Callable[[Json], Json]) -> str:
    """Return the id of the task that an agent has asked its user in.

    Raises:
        Broken: it is no INPUT_REQUIRED Task.
    """
    task: Json = _result(body, result).get("task", {})
    _check_state(task, _INPUT_REQUIRED)
    return str(task["id"])


def check_reply(body: bytes, task: str, result: Callable[[Json], Json]) -> None:
    """Check the answer to a reply, "Bob", to the question in `task`.

    Raises:
        Broken: it is another Task, not COMPLETED, or greets nobody of that name.
    """
    found = _result(body, result).get("task", {})
    _check_id(found, task)
    _check_ended(found, "Hello, Bob!")


def _result(body: bytes, result: Callable[[Json], Json]) -> Json:
    try:
        return result(orjson.loads(body))
    except ValueError as error:
        raise Broken(f"no result: {error}") from None


def _check_id(found: Json, task: str) -> None:
    if found.get("id") != task:
        raise Broken(f"another task than {task}: {str(found)[:300]}")


def _check_ended(task: Json, expected: str) -> None:
    _check_state(task)
    text = "".join(map(_text, task.get("artifacts", [])))
    if text != expected:
        raise Broken(f"not all that the agent said: to {text[-30:]!r}, not {expected[-30:]!r}")


def _text(artifact: Json) -> str:
    return "".join(part.get("text", "") for part in artifact.get("parts", []))


def _chunks(count: int) -> list[str]:
    return [f"{number} " for number in range(1, count + 1)]


def _check_state(holder: Json, expected: str = _COMPLETED) -> None:
    state = holder.get("status", {}).get("state")
    if state != expected:
        raise Broken(f"{state} instead of {expected}: {str(holder)[:300]}")
