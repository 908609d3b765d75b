"""A task's log: each event as it is stored, page by page, or followed live."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from headrace.model import json_text
from headrace.model.cursor import Cursor
from headrace.model.entry import Entry
from headrace.model.subjects import decode_token
from headrace.model.task import TaskKey
from headrace.tasks.feedback import Feedback, feedback_on
from headrace_gateway.call import Call, call_of
from headrace_gateway.feeds import EntryRenderer, FeedBlock
from headrace_gateway.json_errors import InputInvalid
from headrace_gateway.protocols.fleet.parameters import number_in, wants_events
from headrace_gateway.server.json_response import JSON, NO_STORE
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import SharedRenderer
from headrace_gateway.streaming.sse import HttpStream, frame
from headrace_gateway.tasks.ids import task_key
from headrace_gateway.tasks.subscribe import OpenedLog

PATH = "/tasks/{task}/log"
"""Path after an agent's path."""

_MOST = 1000
_USUAL = 100
_BYTES = 1024 * 1024
"""Bytes of events after which a page ends."""

_TYPES = ("task", "message", "statusUpdate", "artifactUpdate")
_WRITERS = {"input": "gateway"}
"""Kinds of writers that are called something else in their ids."""


class _LogRenderer(SharedRenderer):
    """Follows a log to the end of its task, over runs that wait for the user."""

    __slots__ = ()

    def is_over(self, *, run_ended: bool) -> bool:  # noqa: ARG002 - the end of the log ends the stream
        """Return False: the stream ends when nothing can follow."""
        return False


class TaskLog:
    """The endpoint."""

    def __init__(self, services: Services) -> None:
        """Read logs with `services`."""
        self._services = services

    async def read(self, request: Request) -> ASGIApp:
        """Return a page of the log, or its stream if the client accepts events."""
        services, task = self._services, request.path_params["task"]
        call = await call_of(services, request, "SubscribeToTask", task=task)
        after = _place(call.cursor)
        key = task_key(services.settings, call.caller, call.agent, task)
        if not wants_events(request):
            limit = number_in(request.query_params, "limit", 1, _MOST, _USUAL)
            return await self._page(call, key, after, limit)

        async def opening() -> ASGIApp:
            async with await services.task_streams.open_log(call.caller, key, after) as opened:
                if opened.feed.ended and opened.after >= opened.feed.head:
                    return Response(status_code=204)
                renderer, shared = _LogRenderer(ROW_FRAMES), services.subscriptions
                return HttpStream(shared, opened.held.hand_over(), opened.after, renderer)

        return await services.stream_limits.with_permit(call.caller, opening)

    async def _page(
        self, call: Call, key: TaskKey, after: Cursor | int | None, limit: int
    ) -> Response:
        async with await self._services.task_streams.open_log(call.caller, key, after) as opened:
            rows = await _rows(opened, limit)
            is_whole = opened.feed.ended and opened.after + len(rows) >= opened.feed.head
            feedback = await feedback_on(self._services.bus, key) if is_whole else None
            return _answer(opened, rows, feedback)


async def _rows(opened: OpenedLog, limit: int) -> list[bytes]:
    """Return the rows of one page."""
    rows, size = list[bytes](), 0
    reader = opened.feed.reader(opened.after)
    blocks: list[FeedBlock] = []
    while len(rows) < limit and size < _BYTES:
        after = reader.after
        blocks = await reader.read_now()
        if not blocks:
            break
        rows += rows_after(blocks, after)
        size += sum(block.size for block in blocks)
    return rows[:limit]


def _answer(opened: OpenedLog, rows: list[bytes], feedback: Feedback | None) -> Response:
    feed, end = opened.feed, opened.after + len(rows)
    following = b'"%b"' % str(Cursor(feed.log, end)).encode() if end < feed.head else b"null"
    last = feed.last
    body = (
        b'{"task":"%b","log":"%b","first":%d,"head":%d,"state":"%b","events":[%b],"next":%b,"feedback":%b}'
        % (
            feed.key.task.encode(),
            feed.log.encode(),
            opened.first,
            feed.head,
            (last.stamp.state if last is not None else "").encode(),
            b",".join(rows),
            following,
            json_text.encode(None if feedback is None else feedback.shown()),
        )
    )
    return Response(body, 200, NO_STORE, JSON)


def _place(stated: str) -> Cursor | int | None:
    """Return the place after which to read; None for the beginning."""
    if not stated:
        return None
    if stated.isascii() and stated.isdecimal() and len(stated) <= len(str(10**15)):
        return int(stated)
    cursor = Cursor.parse(stated)
    if cursor is None:
        raise InputInvalid("after: must be a generation, or a cursor <log>:<generation>")
    return cursor


@dataclass(frozen=True, slots=True)
class Rows:
    """A row per event, as JSON."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the rows of the entry's events after the first `skip`."""
        stamp = entry.stamp
        writer = json_text.encode({"kind": _kind(entry), "id": stamp.writer})
        shared = b'"time":"%b","writer":%b,"run":%d,"attempt":%d,"state":"%b"%b' % (
            entry.time.encode(),
            writer,
            stamp.run,
            stamp.attempt,
            stamp.state.encode(),
            _owner(entry),
        )
        return tuple(
            b'{"generation":%d,"cursor":"%b",%b,"type":"%b","event":%b}'
            % (
                generation,
                str(Cursor(stamp.log, generation)).encode(),
                shared,
                _type(line).encode(),
                line,
            )
            for generation, line in enumerate(entry.lines[skip:], entry.generation + skip)
        )


@dataclass(frozen=True, slots=True)
class RowFrames:
    """The same rows as server-sent events, once for all clients."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the frames of the entry's events after the first `skip`."""
        log, first = entry.stamp.log, entry.generation + skip
        rows = enumerate(ROWS.render(entry, skip), first)
        return (b"".join([frame(str(Cursor(log, at)), row) for at, row in rows]),)


ROWS: EntryRenderer = Rows()
ROW_FRAMES: EntryRenderer = RowFrames()


def rows_after(blocks: list[FeedBlock], after: int) -> list[bytes]:
    """Return the rows of the events in `blocks` after generation `after`."""
    # Not kept with the blocks: a page is read once.
    return [row for block in blocks for row in ROWS.render(block.entry, _skip(block.entry, after))]


def _skip(entry: Entry, after: int) -> int:
    return max(0, after + 1 - entry.generation)


def _owner(entry: Entry) -> bytes:
    """Return the member that names the task's owner, with the entry that began the task."""
    if entry.generation > 1 or not entry.stamp.owner:
        return b""
    return b',"owner":%b' % json_text.encode(decode_token(entry.stamp.owner))


def _kind(entry: Entry) -> str:
    """Return what wrote the entry: a worker, or by the name in its id."""
    if entry.stamp.attempt:
        return "worker"
    name = entry.stamp.writer.rpartition("-")[0]
    return _WRITERS.get(name, name) or "unknown"


def _type(line: bytes) -> str:
    return next((name for name in json_text.decode(line) if name in _TYPES), "unknown")
