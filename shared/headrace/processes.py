"""The running processes of a fleet: each answers operators what it is, and changes its log level.

All of one service listen on one subject; a worker listens on one of its own, which names one of its
agents, because a group of workers exports only its agents' subjects.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final, Literal, get_args

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headrace import log_lines
from headrace.jetstream.connection import Bus
from headrace.model.entry import READABLE
from headrace.model.errors import BusUnavailable
from headrace.model.messages import ProcessFound, ProcessQuery
from headrace.model.subjects import PROCESS_REPLIES

_log = logging.getLogger(__name__)

type Service = Literal["gateway", "task-state", "triggers", "worker"]

WORKER: Final = "worker"
SERVICES: Final[tuple[Service, ...]] = get_args(Service.__value__)

ANSWER_TIME = 1.0
"""Seconds for answers: how many processes there are is not known."""


class ProcessAnswers:
    """Answers questions to one process."""

    def __init__(self, bus: Bus, service: str, process: str, *, changes_level: bool = True) -> None:
        """Answer on `bus` for the `process` of a service.

        With `changes_level` false its level of logs is another application's, and stays.
        """
        self._bus, self._service, self._process = bus, service, process
        self._changes_level = changes_level

    async def start(self, *worker: str) -> Subscription:
        """Answer from now on, until the subscription ends; of a worker: `*` and its id.

        Raises:
            BusUnavailable: the connection is closed.
        """
        subject = self._bus.subjects.process(self._service, *worker)
        return await self._bus.subscribe(subject, self._answer)

    async def _answer(self, msg: Msg) -> None:
        query = ProcessQuery.decode_or_ignore(msg, "question to this process")
        if query is None or query.process not in {None, self._process}:
            return
        if query.log_level is not None and self._changes_level:
            usual = self._bus.settings.log_level
            log_lines.set_level(usual if query.log_level == "configured" else query.log_level)
        try:
            await self._bus.publish(msg.reply, self._found().encode())
        except BusUnavailable as error:
            _log.warning("a question to this process was not answered: %s", error)

    def _found(self) -> ProcessFound:
        return ProcessFound(
            service=self._service,
            process=self._process,
            release=version("headrace"),
            reads=list(READABLE),
            writes=self._bus.settings.log_version,
            log_level=logging.getLevelName(logging.getLogger().level).lower(),
        )


async def ask_processes(
    bus: Bus,
    query: ProcessQuery,
    workers: Mapping[str, str],
    services: Sequence[str] = SERVICES,
    seconds: float = ANSWER_TIME,
) -> list[ProcessFound]:
    """Ask the processes of `services`, and return what answered within `seconds`.

    `workers` are those that the directory knows, each with one of its agents. A query for one
    process ends with its answer. An answer counts once, and only if who was asked on its subject
    may give it.

    Raises:
        BusUnavailable: the connection is closed.
    """
    found, is_complete = dict[tuple[str, str], ProcessFound](), asyncio.Event()
    questions = _subjects(bus, services, workers)

    async def receive(msg: Msg) -> None:
        if not msg.data:  # Nobody listens on one of the subjects.
            return
        answer = ProcessFound.decode_or_ignore(msg, "answer of a process")
        if answer is None:
            return
        one = questions.get(msg.subject.rpartition(".")[2])
        if one is None or not one.may_give(answer) or query.process not in {None, answer.process}:
            _log.warning("ignored the answer of a process that was not asked: %s", answer)
            return
        found.setdefault((answer.service, answer.process), answer)
        if query.process is not None:
            is_complete.set()

    # Of its own below the prefix, because that is all that processes may publish to operators.
    prefix, _, token = bus.connection.new_inbox().rpartition(".")
    inbox = f"{prefix}.{PROCESS_REPLIES}.{token}"
    subscription = await bus.subscribe(f"{inbox}.*", receive)
    try:
        for number, one in questions.items():
            await bus.publish(one.subject, query.encode(), f"{inbox}.{number}")
        async with asyncio.timeout(seconds):
            await is_complete.wait()
    except TimeoutError:
        pass
    finally:
        await bus.unsubscribe(subscription)
    return [answer for _, answer in sorted(found.items())]


@dataclass(frozen=True, slots=True)
class _ProcessSubject:
    """A subject to ask on, and who may answer there."""

    subject: str
    service: str
    worker: str | None = None

    def may_give(self, answer: ProcessFound) -> bool:
        """Return whether it is an answer to it."""
        return answer.service == self.service and self.worker in {None, answer.process}


def _subjects(
    bus: Bus, services: Sequence[str], workers: Mapping[str, str]
) -> dict[str, _ProcessSubject]:
    """Return what to ask, by the last token of the subject of their answers."""
    every = [_ProcessSubject(bus.subjects.process(one), one) for one in services if one != WORKER]
    if WORKER in services:
        every += [
            _ProcessSubject(bus.subjects.process(WORKER, agent, worker), WORKER, worker)
            for worker, agent in workers.items()
        ]
    return {str(number): one for number, one in enumerate(every)}
