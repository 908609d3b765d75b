"""FastStream's side: subjects, the queue group, and how answers and refusals are sent.

Nothing of JetStream is declared here: the streams are `headrace.streams`'s.
"""

import logging

from faststream import ExceptionMiddleware
from faststream.nats import NatsBroker, NatsMessage, NatsResponse

from headrace.bus import connect_options
from headrace.messages import GetTask, ListTasks, StartTask, WhoseContext
from headrace_task_state.answering.answers import Answers
from headrace_task_state.answering.pieces import Piece, Pieces
from headrace_task_state.answering.refusals import refusal_of
from headrace_task_state.settings import TaskStateSettings

_log = logging.getLogger(__name__)

QUEUE = "task-state"
"""Queue group of all replicas."""

_AT_ONCE = 256
"""Questions of one kind that are looked after at a time, so that a slow one holds up no other."""

_STOP_PATIENCE = 1.0


def make_broker(settings: TaskStateSettings, answers: Answers, pieces: Pieces) -> NatsBroker:
    """Return the broker that serves `answers`; it connects when it is started."""
    broker = NatsBroker(
        **connect_options(settings, "task-state answers"),
        # It would log every message; what goes wrong is logged where it is refused.
        logger=None,
        graceful_timeout=_STOP_PATIENCE,
        middlewares=[_refusing()],
    )
    subjects = settings.subjects

    @broker.subscriber(subjects.state("get"), queue=QUEUE, max_workers=_AT_ONCE)
    async def get(query: GetTask) -> NatsResponse:
        return _response(pieces.first(await answers.get(query)))

    @broker.subscriber(subjects.state("list"), queue=QUEUE, max_workers=_AT_ONCE)
    async def list_tasks(query: ListTasks) -> NatsResponse:
        return _response(pieces.first(await answers.list(query)))

    @broker.subscriber(subjects.state("context"), queue=QUEUE, max_workers=_AT_ONCE)
    async def context(query: WhoseContext) -> NatsResponse:
        return NatsResponse(await answers.context(query))

    @broker.subscriber(subjects.state("start"), queue=QUEUE, max_workers=_AT_ONCE)
    async def start(query: StartTask) -> NatsResponse:
        return NatsResponse(await answers.start(query))

    @broker.subscriber(subjects.state("ready"), queue=QUEUE, max_workers=_AT_ONCE)
    async def ready() -> NatsResponse:
        return NatsResponse(await answers.ready())

    @broker.subscriber(pieces.subjects)
    async def more(message: NatsMessage) -> NatsResponse:
        return _response(pieces.fetch(message.raw_message.subject))

    return broker


def _response(piece: Piece) -> NatsResponse:
    return NatsResponse(piece.body, headers=piece.headers)


def _refusing() -> ExceptionMiddleware:
    middleware = ExceptionMiddleware()

    @middleware.add_handler(Exception, publish=True)
    def refuse(error: Exception) -> bytes:
        return refusal_of(error).encode()

    return middleware
