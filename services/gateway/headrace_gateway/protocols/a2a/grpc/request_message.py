"""The only request message of an RPC. gRPC does not report its size before it is complete."""

import asyncio
from collections.abc import Callable
from functools import partial

from headrace.model.errors import HeadraceError
from headrace_gateway.refusals import TooManyBytes, TooManyBytesOfOwner
from headrace_gateway.server.body import HeldBody, RequestNotWhole
from headrace_gateway.server.turns import Turns
from headrace_gateway.streaming.grpc import Context
from headrace_gateway.timing import GatewayTiming


class RequestMessage:
    """The message of one RPC while it is received.

    A message that is not complete soon counts as one of the maximum size.
    """

    def __init__(self, held: HeldBody, turns: Turns, largest: int, timing: GatewayTiming) -> None:
        """Count the message in `held`, as one of `largest` bytes if it is slow.

        It takes one of the owner's `turns` until it is counted.
        """
        self._held, self._turns, self._largest, self._timing = held, turns, largest, timing
        self._limit = asyncio.timeout(timing.rpc_message)
        self._has_turn = False
        self._refusal: Callable[[], HeadraceError] = _late

    async def received(self, context: Context) -> bytes:
        """Return the message of the RPC of `context`.

        Raises:
            RequestNotWhole: it does not arrive, or not in time.
            TooManyBytes, TooManyBytesOfOwner: too many bytes are held already.
        """
        try:
            async with self._limit:
                message = await self._in_turn(context)
        except TimeoutError:
            raise self._refusal() from None
        finally:
            self._end_turn()
        if message is None:
            raise self._refusal()
        self._held.resize(len(message))
        return message

    async def _in_turn(self, context: Context) -> bytes | None:
        # Until a message is asked for, gRPC leaves nearly all of it with its client.
        await self._turns.acquire(context.peer())
        self._has_turn = True
        loop = asyncio.get_running_loop()
        slow = loop.call_later(self._timing.usual_rpc_message, self._count_as_largest)
        try:
            return await next_message(context)
        finally:
            slow.cancel()

    def _count_as_largest(self) -> None:
        try:
            self._held.resize(self._largest)
        except (TooManyBytes, TooManyBytesOfOwner) as many:
            self._refusal = partial(type(many), str(many))
            self._limit.reschedule(asyncio.get_running_loop().time())
        else:
            self._end_turn()

    def _end_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            self._turns.give_back()


def _late() -> RequestNotWhole:
    return RequestNotWhole("the request was not received within the time limit")


async def next_message(context: Context) -> bytes | None:
    """Return the RPC's next message; None: there is none.

    grpcio never frees a message that arrives after the wait for it was cancelled, so the wait goes
    on in a task of its own. It ends with the RPC.
    """
    waiting = asyncio.ensure_future(_read(context))
    waiting.add_done_callback(_retrieve_exception)
    return await asyncio.shield(waiting)


async def _read(context: Context) -> bytes | None:
    # Not from the iterator of requests: that is a cycle of references, with the message in it.
    message = await context.read()
    return message if isinstance(message, bytes) else None


def _retrieve_exception(waiting: asyncio.Future[bytes | None]) -> None:
    # If the RPC ended first, nobody else does, and asyncio must not log it.
    if not waiting.cancelled():
        waiting.exception()
