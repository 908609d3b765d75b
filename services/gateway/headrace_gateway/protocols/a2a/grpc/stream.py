"""A feed, streamed to one gRPC client until the task ends or asks for input."""

import asyncio
import logging
from dataclasses import replace

from headrace.model.errors import BusUnavailable, LogLost
from headrace_gateway.call import Call
from headrace_gateway.problems import RETRY_AFTER, Problem, problem_of
from headrace_gateway.protocols.a2a.grpc.asking import Context, outgoing
from headrace_gateway.protocols.a2a.grpc.forms import Form
from headrace_gateway.protocols.a2a.stream_responses import RECOVERED, told_as
from headrace_gateway.protocols.a2a.streaming import Streaming
from headrace_gateway.services import Services
from headrace_gateway.tasks.unanswered import Stopping

_log = logging.getLogger(__name__)

_AT_A_TIME = 64 * 1024
"""About how many bytes of events are held for a client that is slow to take them."""


class CutOff(Exception):
    """The stream ends before its task does; the client may resume it with its cursor."""

    def __init__(self, task: str, reason: str) -> None:
        """Keep what the client is told."""
        super().__init__(reason)
        self.problem: Problem = replace(
            problem_of(Stopping(reason, task)), message=reason, retry_after=RETRY_AFTER
        )


class GrpcStream:
    """One feed, one client. A client that goes away ends only the stream, never the task."""

    def __init__(
        self, services: Services, form: Form, call: Call, streaming: Streaming, context: Context
    ) -> None:
        """Stream to `context`; takes over the use of the feed."""
        self._services, self._form, self._call = services, form, call
        self._streaming, self._context = streaming, context
        self._feed = streaming.feed
        self._reader = streaming.feed.reader(streaming.after)
        self._reader.most = _AT_A_TIME
        self._dialect = told_as(form.dialect, call, streaming)
        self._closing = ""
        self._writing_since: float | None = None
        self._writing: asyncio.Task[object] | None = None

    async def serve(self) -> None:
        """Write what there is until nothing more will come.

        Raises:
            CutOff: the gateway stops, the log can't be read, or the client takes nothing.
            InvalidAgentResponseError: an event can't be said in protobuf.
        """
        streams = self._services.streams
        self._writing = asyncio.current_task()
        streams.add(self)
        try:
            await self._begin()
            while not await self._forward():
                pass
        except (LogLost, BusUnavailable) as trouble:
            _log.info("stream of %s ends: %s", self._feed.key.task, trouble)
            raise CutOff(self._feed.key.task, trouble.public) from None
        except asyncio.CancelledError:
            if not self._closing:
                raise
            raise CutOff(self._feed.key.task, self._closing) from None
        finally:
            streams.remove(self)
            await self._services.feeds.release(self._feed)

    def tick(self, now: float) -> None:
        """Give up on a client that takes nothing; gRPC itself finds out about dead ones."""
        stall = self._services.settings.stall_timeout
        if self._writing_since is not None and now - self._writing_since > stall:
            self._closing = "the client takes nothing"
            _log.info("stream of %s ends: %s", self._feed.key.task, self._closing)
            if self._writing is not None:
                self._writing.cancel()

    def close(self, reason: str) -> None:
        """End soon and say why."""
        self._closing = reason
        if self._writing_since is not None and self._writing is not None:
            self._writing.cancel()
        self._reader.wake()

    async def _begin(self) -> None:
        lost = {} if self._streaming.recovered else {RECOVERED: "false"}
        await self._context.send_initial_metadata(outgoing(self._call.headers | lost))
        first = self._streaming.first
        if first is not None:
            event = self._form.event(first.event, self._streaming.log, first.generation)
            await self._write(event)

    async def _forward(self) -> bool:
        """Write what there is, or wait; return whether that was all there will be."""
        if self._closing:
            raise CutOff(self._feed.key.task, self._closing)
        after = self._reader.after
        blocks = await self._reader.read_now()
        if not blocks:
            if self._reader.at_end:
                return True
            await self._reader.wait()
            return False
        for block in blocks:
            for event in block.pieces(self._dialect, after):
                await self._write(event)
        newest = blocks[-1].entry
        return newest.ends_leg and newest.last_generation == self._feed.head

    async def _write(self, event: bytes) -> None:
        self._writing_since = asyncio.get_running_loop().time()
        await self._context.write(event)
        self._writing_since = None
