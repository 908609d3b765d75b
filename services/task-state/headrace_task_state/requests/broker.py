"""FastStream's side: subjects, the queue group, and how answers and refusals are sent.

Nothing of JetStream is declared here: the streams are `headrace.jetstream.streams`'s.
"""

import logging
from typing import Any

from faststream import ExceptionMiddleware
from faststream.nats import NatsBroker, NatsMessage, NatsResponse
from nats.aio.client import Client

from headrace.jetstream.client import NatsClient
from headrace.jetstream.connection import connect_options
from headrace.jetstream.credentials import NatsCredentials
from headrace.model.messages import (
    CancelChild,
    DropFile,
    GetTask,
    ListTasks,
    OpenQueue,
    StartTask,
    TellChild,
)
from headrace.model.subjects import Subjects
from headrace.wait_for import reason
from headrace_task_state.requests.answers import Answers
from headrace_task_state.requests.pieces import AnswerPieces, Piece
from headrace_task_state.requests.refusals import refusal_of
from headrace_task_state.settings import TaskStateSettings

_log = logging.getLogger(__name__)

QUEUE = "task-state"
"""Queue group of all replicas."""

_AT_ONCE = 256
"""Questions of one kind that are looked after at a time, so that a slow one holds up no other."""

_STOP_TIMEOUT = 1.0


class _Broker(NatsBroker):
    """A broker on the fleet's own client, which shows its credentials to every server."""

    def __init__(self, settings: TaskStateSettings, **options: Any) -> None:  # noqa: ANN401 - FastStream's own
        super().__init__(**options)
        self._settings = settings

    async def _connect(self) -> Client:
        client = NatsClient(NatsCredentials(self._settings))
        options = connect_options(self._settings, "task-state answers")
        await client.connect(**options, error_cb=_note)
        self.config.connect(client)
        return client


async def _note(error: Exception) -> None:
    # The bus's own connection says what is wrong with NATS.
    _log.debug("NATS: %s", reason(error))


def make_broker(settings: TaskStateSettings, answers: Answers, pieces: AnswerPieces) -> NatsBroker:
    """Return the broker that serves `answers` but for lists; it connects when it is started."""
    broker = _Broker(
        settings,
        # It would log every message; what goes wrong is logged where it is refused.
        logger=None,
        graceful_timeout=_STOP_TIMEOUT,
        middlewares=[_refusing()],
    )
    subjects = settings.subjects

    @broker.subscriber(subjects.state("get", of_all=True), max_workers=_AT_ONCE)
    @broker.subscriber(subjects.state("get"), queue=QUEUE, max_workers=_AT_ONCE)
    async def get(query: GetTask) -> NatsResponse:
        return _response(pieces.first(await answers.get(query)))

    @broker.subscriber(subjects.state("ready"), queue=QUEUE, max_workers=_AT_ONCE)
    async def ready() -> NatsResponse:
        return NatsResponse(await answers.ready())

    @broker.subscriber(pieces.subjects)
    async def more(message: NatsMessage) -> NatsResponse:
        return _response(pieces.fetch(message.raw_message.subject))

    _answer_workers(broker, subjects, answers)
    return broker


async def answer_lists(
    broker: NatsBroker, subjects: Subjects, answers: Answers, pieces: AnswerPieces
) -> None:
    """Have a broker that has been started answer questions for lists, too."""

    async def list_tasks(query: ListTasks) -> NatsResponse:
        return _response(pieces.first(await answers.list(query)))

    for of_all, queue in ((True, ""), (False, QUEUE)):
        subject = subjects.state("list", of_all=of_all)
        subscriber = broker.subscriber(subject, queue=queue, max_workers=_AT_ONCE)
        subscriber(list_tasks)
        await subscriber.start()


def _answer_workers(broker: NatsBroker, subjects: Subjects, answers: Answers) -> None:
    @broker.subscriber(subjects.state("start.*", of_all=True), max_workers=_AT_ONCE)
    @broker.subscriber(subjects.state("start.*"), queue=QUEUE, max_workers=_AT_ONCE)
    async def start(query: StartTask, message: NatsMessage) -> NatsResponse:
        return NatsResponse(await answers.for_worker(query, _agent(message)))

    @broker.subscriber(subjects.state("cancel.*", of_all=True), max_workers=_AT_ONCE)
    @broker.subscriber(subjects.state("cancel.*"), queue=QUEUE, max_workers=_AT_ONCE)
    async def cancel(query: CancelChild, message: NatsMessage) -> NatsResponse:
        return NatsResponse(await answers.for_worker(query, _agent(message)))

    @broker.subscriber(subjects.state("tell.*", of_all=True), max_workers=_AT_ONCE)
    @broker.subscriber(subjects.state("tell.*"), queue=QUEUE, max_workers=_AT_ONCE)
    async def tell(query: TellChild, message: NatsMessage) -> NatsResponse:
        return NatsResponse(await answers.for_worker(query, _agent(message)))

    @broker.subscriber(subjects.state("queue.*", of_all=True), max_workers=_AT_ONCE)
    @broker.subscriber(subjects.state("queue.*"), queue=QUEUE, max_workers=_AT_ONCE)
    async def queue(query: OpenQueue, message: NatsMessage) -> NatsResponse:
        return NatsResponse(await answers.for_worker(query, _agent(message)))

    @broker.subscriber(subjects.state("drop.*", of_all=True), max_workers=_AT_ONCE)
    @broker.subscriber(subjects.state("drop.*"), queue=QUEUE, max_workers=_AT_ONCE)
    async def drop(query: DropFile, message: NatsMessage) -> NatsResponse:
        return NatsResponse(await answers.for_worker(query, _agent(message)))


def _agent(message: NatsMessage) -> str:
    """Return whose workers may publish on the message's subject."""
    return message.raw_message.subject.rpartition(".")[2]


def _response(piece: Piece) -> NatsResponse:
    return NatsResponse(piece.body, headers=piece.headers)


def _refusing() -> ExceptionMiddleware:
    middleware = ExceptionMiddleware()

    @middleware.add_handler(Exception, publish=True)
    def refuse(error: Exception) -> bytes:
        return refusal_of(error).encode()

    return middleware
