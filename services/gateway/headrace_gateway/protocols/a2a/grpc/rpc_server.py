"""grpcio's server, which no path of a call can end.

grpcio decodes the path of a call without a registered method in the loop that accepts all calls. A
path that is not UTF-8 ends that loop and the server, whoever sent it. Here all methods are
registered, so that gRPC's core compares the paths, and all other calls are refused unread.
"""

import asyncio
import logging
from typing import Any, override

import grpc
import grpc.aio
from grpc._cython import cygrpc
from grpc.aio._server import Server

_cygrpc: Any = cygrpc
_handle = _cygrpc._handle_rpc  # noqa: SLF001
_schedule = _cygrpc._schedule_rpc_coro  # noqa: SLF001
_MethodResolver = _cygrpc._MethodResolver  # noqa: SLF001
_Accepting: Any = _cygrpc.AioServer

type _Handler = grpc.RpcMethodHandler[Any, Any]

_NO_METHOD = ""
"""The name of the method of a call that is refused."""

_BAD_ENCODING = "Invalid encoding on"
"""How grpcio's line about metadata that is not UTF-8 begins, which it reads as Latin-1."""


class _WithoutTraceback(logging.Filter):
    """Makes one line of what a client's metadata would have written as a traceback."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if record.getMessage().startswith(_BAD_ENCODING):
            record.msg = f"metadata of a gRPC client is not UTF-8: {record.getMessage()}"
            record.args, record.exc_info = None, None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


_without_traceback = _WithoutTraceback()


class RpcServer(Server):
    """A server of registered methods."""

    @override
    def __init__(self, options: list[tuple[str, Any]]) -> None:
        logging.getLogger(cygrpc.__name__).addFilter(_without_traceback)
        self._loop = asyncio.get_running_loop()
        self._server = _RegisteredCalls(self._loop, None, (), (), tuple(options), None)


class _RegisteredCalls(_Accepting):  # type: ignore[misc]  # it has no types
    """Accepts the calls of each method in a task of its own."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)
        self._methods: dict[str, _Handler] = {}
        self._resolver = _MethodResolver([], self._methods)
        self._calls = set[asyncio.Task[None]]()

    def add_registered_method_handlers(self, method_handlers: dict[str, _Handler]) -> None:
        super().add_registered_method_handlers(method_handlers)
        self._methods |= method_handlers

    def _make_request_call_future(self, method: bytes | None) -> asyncio.Task[None]:
        """Return what grpcio's loop waits for: it never has a call, and fails at the server's end.

        `method` is None for calls of all methods that are not registered.
        """
        return asyncio.ensure_future(self._accept(method))

    async def _accept(self, method: bytes | None) -> None:
        name = _NO_METHOD if method is None else method.decode()
        while True:
            if method is None:
                self._begin(name, await self._request_call())
            else:
                self._begin(name, await self._request_registered_call(method))

    def _begin(self, name: str, call: object) -> None:
        loop = asyncio.get_running_loop()
        answering = _handle(name, self._resolver, (), call, loop, concurrency_exceeded=False)
        task = loop.create_task(_schedule(answering, call, loop, name))
        # The loop itself keeps no reference.
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
