"""Metrics of requests by protocol, binding, operation and outcome.

All bindings run their requests in `OpenRequests.one`, so that one place measures them. No label
comes from a client: protocols and bindings are named by their routes, and operations by the calls
that they become.
"""

import time
from asyncio import CancelledError
from collections.abc import Mapping

import grpc.aio
from starlette.requests import ClientDisconnect

from headrace.loop_metrics import LoopCount, LoopTimes
from headrace.metrics import REQUEST_SECONDS, REQUESTS
from headrace_gateway.json_errors import CodedError
from headrace_gateway.problems import status_of
from headrace_gateway.server.auth.credentials_file import OPERATIONS, OPERATORS
from headrace_gateway.server.open_requests import OTHER_PROTOCOL, OpenRequest
from headrace_gateway.tasks.subscribe import NothingFollows

OUTCOMES = ("ok", "refused", "unavailable", "failed", "disconnected")

_UNKNOWN = "none"
"""Operation of a request that was refused before its operation was known."""

_A2A = (
    *(name for group, names in OPERATIONS.items() if group not in OPERATORS for name in names),
    "ForkTask",
    "SubscribeToContext",
)
_OPERATORS = tuple(name for group in sorted(OPERATORS) for name in OPERATIONS[group])
_THREADS = ("ListThreads", "ChangeThread", "DeleteThread")
_OWNERS = (
    "SubscribeToTask",
    "ListTasks",
    *("ListTriggers", "GetTrigger", "PutTrigger", "PauseTrigger", "ResumeTrigger", "DeleteTrigger"),
    *("ListSchedules", "GetSchedule", "PutSchedule", "PauseSchedule", "ResumeSchedule"),
    *("RunSchedule", "DeleteSchedule"),
    *(*_THREADS, "ShowThread", "FollowThread"),
)
"""Operations of the fleet API on the caller's own tasks, triggers and schedules."""
_RUNS = ("SendStreamingMessage", "SubscribeToTask", "CancelTask")
_HECTOR = ("SendMessage", "GetTask", "ListTasks", *_RUNS)

_FROM_ZERO = {
    ("a2a", "jsonrpc"): _A2A,
    ("a2a", "http"): _A2A,
    ("a2a", "grpc"): _A2A,
    ("a2a", "websocket"): _A2A,
    ("ag-ui", "http"): _RUNS,
    ("ag-ui", "websocket"): _RUNS,
    ("hector", "jsonrpc"): _HECTOR,
    ("hector", "http"): _HECTOR,
    ("copilotkit", "http"): (*_RUNS, *_THREADS),
    ("ai-sdk", "http"): _RUNS,
    ("mcp", "jsonrpc"): ("GetTask", *_RUNS),
    ("openai", "http"): ("DeleteTask", *_RUNS),
    ("fleet", "http"): (*_OPERATORS, *_OWNERS),
    # Downloads of tasks' files, whose addresses are no protocol's.
    (OTHER_PROTOCOL, "http"): ("GetTask",),
}
"""The operations of each protocol and binding whose first failure is to be an increase."""

_SERVER_ERROR, _UNAVAILABLE = 500, 503

_DISCONNECTS = (CancelledError, ClientDisconnect, grpc.aio.BaseError)


type _Key = tuple[str, str, str]
"""Protocol, binding and operation."""


class RequestMetrics:
    """Counts and times the requests of one gateway."""

    def __init__(self) -> None:
        """Begin with each protocol's operations at zero: their first failure is an increase."""
        # Kept, because each look-up by labels takes longer than the count itself.
        self._counters: dict[_Key, Mapping[str, LoopCount]] = {}
        self._seconds: dict[_Key, LoopTimes] = {}
        for (protocol, binding), operations in _FROM_ZERO.items():
            for name in (*operations, _UNKNOWN):
                self._begin((protocol, binding, name))

    def ended(self, request: OpenRequest, error: BaseException | None) -> None:
        """Count a request, which ended with `error`."""
        key = (request.protocol, request.binding, request.operation or _UNKNOWN)
        counters = self._counters.get(key) or self._begin(key)
        counters[outcome_of(error)].inc()
        seconds = self._seconds.get(key)
        if seconds is None:
            seconds = self._seconds[key] = REQUEST_SECONDS.labels(*key)
        seconds.observe(time.perf_counter() - request.began)

    def _begin(self, key: _Key) -> Mapping[str, LoopCount]:
        begun = self._counters[key] = {name: REQUESTS.labels(*key, name) for name in OUTCOMES}
        return begun


def outcome_of(error: BaseException | None) -> str:
    """Return the outcome of a request that ended with `error`."""
    if error is None or isinstance(error, NothingFollows):
        return "ok"
    if isinstance(error, _DISCONNECTS) or not isinstance(error, Exception):
        return "disconnected"
    status = error.status if isinstance(error, CodedError) else status_of(error)
    if status < _SERVER_ERROR:
        return "refused"
    return "unavailable" if status == _UNAVAILABLE else "failed"
