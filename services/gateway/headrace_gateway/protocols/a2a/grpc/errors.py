"""Problems in gRPC's format: a status code, and ``google.rpc.Status`` with typed details."""

import asyncio
from typing import NoReturn

import grpc
import grpc.aio
from a2a.utils.errors import A2A_REASON_TO_ERROR
from a2a.utils.grpc_status import GRPC_STATUS_DETAILS_BIN_KEY
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from headrace_gateway.problems import Problem, headers
from headrace_gateway.protocols.a2a.grpc.rpc_request import outgoing
from headrace_gateway.streaming.grpc import Context

_LONGEST = 1024
"""Maximum characters of a message; metadata is limited to 8 KB and contains the message twice."""

_LONGEST_VALUE = 300
"""Maximum characters of a client's value in the details."""

_PUSHBACK = "grpc-retry-pushback-ms"
"""Metadata key of the milliseconds after which a client may retry, in gRPC's own terms; -1: it must
not. Without it, one that is configured to retry UNAVAILABLE would send its message again."""


async def refuse(context: Context, problem: Problem, *, named: bool = False) -> NoReturn:
    """Abort the RPC with the problem; `named` puts the error's name in the message, for 0.3."""
    message = problem.message[:_LONGEST]
    if named and problem.reason in A2A_REASON_TO_ERROR:
        message = f"{A2A_REASON_TO_ERROR[problem.reason].__name__}: {message}"
    code = grpc.StatusCode[problem.grpc_status]
    status = Status(code=code.value[0], message=message, details=_details(problem))
    details = status.SerializeToString()
    context.set_trailing_metadata(
        (
            *outgoing(headers(problem)),
            (GRPC_STATUS_DETAILS_BIN_KEY, details),
            (_PUSHBACK, str(-1 if problem.retry_after is None else problem.retry_after * 1000)),
        )
    )
    try:
        await abort(context, code, message)
    except grpc.aio.InternalError:
        raise gone() from None


async def abort(context: Context, code: grpc.StatusCode, message: str) -> NoReturn:
    """Abort the RPC, and have its end free its request."""
    try:
        await context.abort(code, message)
    except grpc.aio.AbortError as aborted:
        _free_after_rpc(aborted)
        raise


def _free_after_rpc(aborted: grpc.aio.AbortError) -> None:
    """Make the end of the RPC free it, with the request that it has received.

    gRPC keeps `aborted` in the RPC's state, to which its traceback and the error before it lead.
    The garbage collector, which counts objects and not bytes, let them keep gigabytes.
    """
    handler = asyncio.current_task()
    if handler is not None:
        handler.add_done_callback(lambda _: _forget_origin(aborted))


def _forget_origin(error: BaseException) -> None:
    error.__traceback__ = error.__context__ = None


def gone() -> asyncio.CancelledError:
    """Return the error that makes gRPC send nothing; it cannot send to a closed connection."""
    return asyncio.CancelledError("the client disconnected")


def _details(problem: Problem) -> list[Any]:
    more = {name: value[:_LONGEST_VALUE] for name, value in problem.metadata.items()}
    found: list[Message] = [ErrorInfo(reason=problem.reason, domain=problem.domain, metadata=more)]
    if problem.violations:
        found.append(BadRequest(field_violations=_violations(problem)))
    if problem.retry_after is not None:
        found.append(RetryInfo(retry_delay=Duration(seconds=problem.retry_after)))
    return [_packed(one) for one in found]


def _violations(problem: Problem) -> list[BadRequest.FieldViolation]:
    """Return the first invalid fields; more do not fit into metadata."""
    return [
        BadRequest.FieldViolation(field=v.field[:200], description=v.rule[:300])
        for v in problem.violations[:8]
    ]


def _packed(detail: Message) -> Any:
    packed = Any()
    packed.Pack(detail)
    return packed
