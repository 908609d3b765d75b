"""Task state's requests: subscribers, answers (in pieces if they are long) and refusals."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, cast, override

from faststream import BaseMiddleware, ExceptionMiddleware
from faststream.nats import NatsBroker, NatsResponse, NatsRouter
from faststream.specification import AsyncAPI
from pydantic import ValidationError

from headrace.jetstream.connection import Bus
from headrace.model import json_text
from headrace.model.entry import CONTRACT_VERSION, check_version, stating
from headrace.model.errors import (
    BusUnavailable,
    EventTooLarge,
    InvalidName,
    LogTooNew,
    NewerVersion,
    StartRefused,
    StateUnavailable,
    TaskUnknown,
    UndecodableMessage,
)
from headrace.model.events import Json
from headrace.model.messages import (
    CountOpenTasks,
    FindTasks,
    GetTask,
    GetUsage,
    ListTasks,
    ListThreads,
    Refusal,
)
from headrace.model.state_operations import COMMANDS, QUERIES
from headrace.model.subjects import Subjects
from headrace.state_client import MORE
from headrace.thread_marks import ThreadMarks
from headrace_task_state.commands.for_workers import Question, WorkerCommands
from headrace_task_state.queries.counts import OpenTasks, UsageReports
from headrace_task_state.queries.find_tasks import TaskRows
from headrace_task_state.queries.frontier import Frontier, ViewBehind
from headrace_task_state.queries.get import Tasks
from headrace_task_state.queries.list_tasks import Lists
from headrace_task_state.queries.list_threads import ThreadLists
from headrace_task_state.store import Reader

_log = logging.getLogger(__name__)

TIMEOUT = 4.0
"""Seconds after which a timeout error is sent; callers wait longer."""


type Query = GetTask | ListTasks | FindTasks | ListThreads | GetUsage | CountOpenTasks


class Answers:
    """Answers requests of gateways and workers."""

    def __init__(
        self,
        bus: Bus,
        reader: Reader,
        frontier: Frontier,
        for_workers: WorkerCommands,
        refusal: Callable[[], str] = str,
    ) -> None:
        """Answer from the view and the logs.

        `refusal` returns why the store accepts no writes; empty if it does.
        """
        self._reader, self._ranges = reader, frontier.ranges
        self._for_workers, self._refusal = for_workers, refusal
        self._answers: dict[type[Query], Callable[[Any], Coroutine[Any, Any, Json]]] = {
            GetTask: Tasks(bus, reader).get,
            ListTasks: Lists(bus, reader, frontier).list,
            FindTasks: TaskRows(bus, reader, frontier).find,
            ListThreads: ThreadLists(ThreadMarks(bus), reader, frontier).find,
            GetUsage: UsageReports(reader, frontier).get,
            CountOpenTasks: OpenTasks(reader, frontier).count,
        }

    async def respond(self, query: Query) -> bytes:
        """Answer a query; raises as what answers it, and TimeoutError."""
        return await _in_time(self._answers[type(query)](query))

    async def for_worker(self, question: Question, agent: str) -> bytes:
        """Answer a worker of `agent`; raises as `WorkerCommands.answer`, and TimeoutError."""
        return await _in_time(self._for_workers.execute(question, agent))

    async def ready(self) -> bytes:
        """Return ``{"following": …, "positions": {…}}``, with a ``note`` if writes are refused.

        That is whether every range is being applied by some replica, and the stream sequence up to
        which each one has been applied, by the number of its event stream.
        """
        if refusal := self._refusal():
            return json_text.encode({"following": False, "positions": {}, "note": refusal})
        try:
            following = await self._reader.are_followed(self._ranges)
            positions = await self._reader.positions(self._ranges)
        except StateUnavailable:
            return json_text.encode({"following": False, "positions": {}})
        numbers = (str(place.stream) for place in self._ranges)
        named = dict(zip(numbers, positions, strict=True))
        return json_text.encode({"following": following, "positions": named})


async def _in_time(answer: Coroutine[Any, Any, Json]) -> bytes:
    async with asyncio.timeout(TIMEOUT):
        return json_text.encode(await answer)


def refusal_of(error: Exception) -> Refusal:
    """Return the answer for `error`."""
    match error:
        case TaskUnknown():
            return Refusal(code="task_unknown", message=str(error))
        case StartRefused():
            return Refusal.model_validate(
                {"code": "start_refused", "message": str(error), "why": error.why}
            )
        case InvalidName() | EventTooLarge() | ValidationError():
            return Refusal(code="bad_request", message=_rule_of(error))
        case BusUnavailable() | LogTooNew() | NewerVersion() | StateUnavailable() | TimeoutError():
            return Refusal(
                code="state_unavailable",
                message=str(error) or "task state did not respond in time; try again",
                why="no_leader" if isinstance(error, BusUnavailable) else None,
                # Another replica may be of a release that reads a newer version.
                is_late=isinstance(error, NewerVersion | ViewBehind | TimeoutError),
            )
        case UndecodableMessage():
            _log.error("a query failed", exc_info=error)
            return Refusal(code="bad_request", message=str(error))
        case _:
            _log.error("a query failed", exc_info=error)
            return Refusal(
                code="state_unavailable",
                message="task state failed with an internal error; see its log",
            )


def _rule_of(error: InvalidName | EventTooLarge | ValidationError) -> str:
    if not isinstance(error, ValidationError):
        return error.rule if isinstance(error, InvalidName) else str(error)
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"])) or "body"
    return f"{where}: {first['msg']}"


LIFE = 10.0
"""Seconds for which the rest of an answer is kept for the caller."""


class Piece(NamedTuple):
    """One message of an answer."""

    body: bytes
    headers: dict[str, str]


class AnswerPieces:
    """Splits answers, and keeps them until their pieces have been fetched."""

    def __init__(self, subject: str, size: int, life: float = LIFE) -> None:
        """Serve pieces of `size` bytes on ``<subject>.<token>.<n>``, this replica's own.

        The rest of an answer is kept for `life` seconds.
        """
        self._subject, self._size, self._life = subject, size, life
        self._kept: dict[str, bytes] = {}

    @property
    def subjects(self) -> str:
        """Subjects on which pieces are requested."""
        return f"{self._subject}.{{token}}.{{number}}"

    def first(self, answer: bytes) -> Piece:
        """Return `answer`, or its first piece."""
        if len(answer) <= self._size:
            return Piece(answer, {})
        token = secrets.token_hex(8)
        self._kept[token] = answer
        asyncio.get_running_loop().call_later(self._life, self._kept.pop, token, None)
        return self._piece(token, 0)

    def fetch(self, subject: str) -> Piece:
        """Return the piece requested on `subject`; an empty one if it is not kept."""
        token, number = subject.split(".")[-2:]
        return self._piece(token, int(number)) if number.isdecimal() else Piece(b"", {})

    def _piece(self, token: str, number: int) -> Piece:
        answer = self._kept.get(token, b"")
        start, end = number * self._size, (number + 1) * self._size
        more = {MORE: f"{self._subject}.{token}.{number + 1}"} if end < len(answer) else {}
        return Piece(answer[start:end], more)


QUEUE = "task-state"
"""Queue group of all replicas."""

type _Handler = Callable[..., Awaitable[NatsResponse]]

_SUBJECT = ContextVar[str]("subject")
"""The subject of the request that is handled. FastStream's own parameters for it, `Path` and the
message, are read in a thread for each request."""


@dataclass(frozen=True, slots=True)
class Questions:
    """The subscribers that serve `answers`; `pieces` holds what does not fit into one message."""

    subjects: Subjects
    answers: Answers
    pieces: AnswerPieces
    version: str = CONTRACT_VERSION
    """Version of the bus contract that answers state."""

    def include_in(self, broker: NatsBroker, middlewares: tuple[Any, ...] = ()) -> None:
        """Have the broker answer all requests except those for lists and usage.

        `middlewares` see requests about tasks, and exceptions before they become refusals.
        """
        broker.include_routers(self._about_tasks(middlewares), self._replica_questions())

    async def include_lists(self, broker: NatsBroker, middlewares: tuple[Any, ...] = ()) -> None:
        """Have a started broker answer requests for lists and usage too."""
        router = self.lists(middlewares)
        broker.include_router(router)
        for subscriber in router.subscribers:
            await subscriber.start()

    def lists(self, middlewares: tuple[Any, ...] = ()) -> NatsRouter:
        """Return the subscribers that answer requests for lists and usage."""
        return self._router(middlewares, QUERIES.keys() - {"get"})

    def _about_tasks(self, middlewares: tuple[Any, ...]) -> NatsRouter:
        router = self._router(middlewares, {"get"})
        for operation, command in COMMANDS.items():

            async def handler(query: Question) -> NatsResponse:
                agent = _SUBJECT.get().rpartition(".")[2]
                return self._response(Piece(await self.answers.for_worker(query, agent), {}))

            self._subscribe(router, f"{operation}.{{agent}}", command.request, handler)
        return router

    def _replica_questions(self) -> NatsRouter:
        async def ready() -> NatsResponse:
            """Ask whether every range of the log is being applied."""
            return self._response(Piece(await self.answers.ready(), {}))

        async def more() -> NatsResponse:
            """Ask for the next piece of an answer that did not fit into one message."""
            return self._response(self.pieces.fetch(_SUBJECT.get()))

        router = self._router()
        router.subscriber(self.subjects.state("ready"), queue=QUEUE, title="stateReady")(ready)
        router.subscriber(self.pieces.subjects, title="stateMore")(more)
        return router

    def _router(
        self, middlewares: tuple[Any, ...] = (), operations: Iterable[str] = ()
    ) -> NatsRouter:
        """Return a router that answers errors by refusals, with subscribers to these queries."""
        refusing = ExceptionMiddleware()

        # FastStream calls a function that is not async in a thread: up to 40 would be kept.
        @refusing.add_handler(Exception, publish=True)
        async def refuse(error: Exception) -> NatsResponse:
            return self._response(Piece(refusal_of(error).encode(), {}))

        router = NatsRouter(middlewares=(refusing, *middlewares, _Readable))
        for operation in sorted(operations):

            async def handler(query: Query) -> NatsResponse:
                return self._response(self.pieces.first(await self.answers.respond(query)))

            self._subscribe(router, operation, QUERIES[operation].request, handler)
        return router

    def _response(self, piece: Piece) -> NatsResponse:
        return NatsResponse(piece.body, headers={**stating(self.version), **piece.headers})

    def _subscribe(
        self, router: NatsRouter, operation: str, asks: type[Query | Question], handler: _Handler
    ) -> None:
        """Subscribe to requests to one replica, and to those to all, sent if one is silent."""
        handler.__annotations__["query"] = asks
        of_all, one = (self.subjects.state(operation, of_all=each) for each in (True, False))
        router.subscriber(of_all, include_in_schema=False)(handler)
        title = f"state{operation.partition('.')[0].capitalize()}"
        description = f"{asks.__doc__} On `{of_all}` it goes to all replicas."
        router.subscriber(one, queue=QUEUE, title=title, description=description)(handler)


class _Readable(BaseMiddleware):
    """Raises NewerVersion for requests of a later version than this release reads.

    It notes the subject of the others.
    """

    @override
    async def consume_scope(self, call_next: Callable[[Any], Awaitable[Any]], msg: Any) -> Any:
        subject = msg.raw_message.subject
        check_version(subject, msg.headers)
        _SUBJECT.set(subject)
        return await call_next(msg)


def described(title: str, version: str, description: str) -> Json:
    """Return FastStream's AsyncAPI 3.0 document of the requests that task state answers."""
    subjects = Subjects("{prefix}")
    pieces = AnswerPieces(subjects.state("more.{replica}"), 0)
    # This broker receives no requests: it never connects.
    questions = Questions(subjects, cast("Answers", None), pieces)
    broker = NatsBroker(logger=None)
    questions.include_in(broker)
    broker.include_router(questions.lists())
    specification = AsyncAPI(
        broker,
        title=title,
        version=version,
        description=description,
        license={"name": "Apache-2.0"},
    )
    document: Json = specification.to_specification().to_jsonable()
    # FastStream does not order subscribers.
    for listed in (document, document["components"]):
        for name, part in listed.items():
            if name in {"channels", "operations", "messages", "schemas"}:
                listed[name] = dict(sorted(part.items()))
    # The address of NATS differs by fleet.
    for part in (document, *document["channels"].values()):
        part.pop("servers")
    return document
