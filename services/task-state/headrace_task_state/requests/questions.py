"""Task state's requests: FastStream's subscribers, and how answers and refusals are sent."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, cast, override

from faststream import BaseMiddleware, ExceptionMiddleware, Path
from faststream.nats import NatsBroker, NatsMessage, NatsResponse, NatsRouter
from faststream.specification import AsyncAPI

from headrace.model.entry import CONTRACT_VERSION, check_version, stating
from headrace.model.events import Json
from headrace.model.subjects import Subjects
from headrace_task_state.commands.for_workers import QUESTIONS, Question
from headrace_task_state.requests.answers import (
    QUERIES,
    AnswerPieces,
    Answers,
    Piece,
    Query,
    refusal_of,
)

QUEUE = "task-state"
"""Queue group of all replicas."""

type _Handler = Callable[..., Awaitable[NatsResponse]]


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
        for operation, asks in QUESTIONS.items():

            async def handler(query: Question, agent: Annotated[str, Path()]) -> NatsResponse:
                return self._response(Piece(await self.answers.for_worker(query, agent), {}))

            self._subscribe(router, f"{operation}.{{agent}}", asks, handler)
        return router

    def _replica_questions(self) -> NatsRouter:
        async def ready() -> NatsResponse:
            """Ask whether every range of the log is being applied."""
            return self._response(Piece(await self.answers.ready(), {}))

        async def more(message: NatsMessage) -> NatsResponse:
            """Ask for the next piece of an answer that did not fit into one message."""
            return self._response(self.pieces.fetch(message.raw_message.subject))

        router = self._router()
        router.subscriber(self.subjects.state("ready"), queue=QUEUE, title="stateReady")(ready)
        router.subscriber(self.pieces.subjects, title="stateMore")(more)
        return router

    def _router(
        self, middlewares: tuple[Any, ...] = (), operations: Iterable[str] = ()
    ) -> NatsRouter:
        """Return a router that answers errors by refusals, with subscribers to these queries."""
        refusing = ExceptionMiddleware()

        @refusing.add_handler(Exception, publish=True)
        def refuse(error: Exception) -> NatsResponse:
            return self._response(Piece(refusal_of(error).encode(), {}))

        router = NatsRouter(middlewares=(refusing, *middlewares, _Readable))
        for operation in sorted(operations):

            async def handler(query: Query) -> NatsResponse:
                return self._response(self.pieces.first(await self.answers.respond(query)))

            self._subscribe(router, operation, QUERIES[operation], handler)
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
    """Raises NewerVersion for requests of a later version than this release reads."""

    @override
    async def consume_scope(self, call_next: Callable[[Any], Awaitable[Any]], msg: Any) -> Any:
        check_version(msg.raw_message.subject, msg.headers)
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
