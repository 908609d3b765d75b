"""Clients that reconnect after every interruption. A new kind is a class and a line in `CLIENTS`.

Each starts one task, follows it, acts as its kind does, and obeys every response: it repeats a
request only if the response allows it.
"""

import asyncio
import random
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import httpx

from headrace.model.events import Json
from tests.support.event_stream import state_of
from tests.support.plain_a2a import message
from tests.support.resuming import Client as Follower
from tests.support.resuming import Step
from tests.support.resuming_agui import AGUI, RunClient, has_passed
from tests.support.resuming_bindings import (
    JSON_RPC,
    REST_POST,
    Ask,
    Binding,
    Received,
    Refused,
)
from tests.support.resuming_protocols import A2A
from tests.support.resuming_wire import ConnectionCut, Cut, NotListening

_CUTS = 0.25
"""Share of the connections that the client itself cuts."""
_MOST_BYTES = 20_000
_MOST, _MOST_OF_MANAGER = 40, 15
"""Bounds of the count in a message."""
_MOST_PAUSE = 60
_PAUSE = 0.3
_SILENCE = 10.0
"""Seconds without an event after which a client reconnects: the gateway may be frozen."""
_AGAIN = {429, 502, 503, 504}
_GONE = ("past retention", "past its retention", "was deleted", "TASK_NOT_FOUND")
"""Texts of errors about an erased task; the last one after its tombstone has expired."""
_LOG_LOST = "log_lost"
"""Code at the end of an AG-UI stream whose run was erased; the verdict checks that it was."""
_AT_WORK = {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}
_UNSETTLED = 60.0
"""Seconds for which a client looks for a task that may have been accepted but is not found."""
_FOLLOW_UPS = 4
_HALF = 0.5


class OutcomeUnknown(Exception):
    """The client can't know whether its message was accepted, and must not repeat it."""


class WrongAnswer(AssertionError):
    """A gateway gave an answer that it must not give."""


@dataclass(frozen=True, slots=True)
class ClientContext:
    """What all clients share."""

    http: httpx.AsyncClient
    gateways: Sequence[str]
    seed: int


class Client(ABC):
    """One client of one task."""

    agents: tuple[str, ...] = ("plain", "careful", "blocking")
    """The agents that clients of the kind use."""

    def __init__(self, context: ClientContext, number: int) -> None:
        """Draw all choices from the seed and the number."""
        self._context = context
        self.chance = random.Random(f"{context.seed}/{number}")
        self.agent = self.chance.choice(self.agents)
        most = _MOST_OF_MANAGER if self.agent == "manager" else _MOST
        count, pause = self.chance.randrange(1, most), self.chance.randrange(_MOST_PAUSE)
        self.text = f"{count} {pause}"
        self.name = uuid.UUID(int=self.chance.getrandbits(128), version=4).hex
        self.may_end_as = {"COMPLETED"}
        """States in which its task may end."""
        self.accepted = list[str]()
        """Texts of the follow-ups that were accepted while the task was running."""
        self.gave_up = False
        """Whether it can't know whether its message was accepted."""
        self.expired = False
        """Whether the task was erased before it had received everything."""

    @property
    @abstractmethod
    def follower(self) -> Follower:
        """The part of the client that follows the task."""

    @abstractmethod
    async def work(self) -> None:
        """Return when the task has ended, or nothing more can be learned about it."""

    @property
    def outcome_name(self) -> str:
        """How it ended, in a word; empty while it is waiting."""
        if self.expired:
            return "erased"
        if self.gave_up:
            return "unknown"
        return "ended" if self.follower.over else ""

    def steps(self, bindings: Sequence[Binding]) -> Iterator[Step]:
        """Yield connections without end, some of which the client cuts itself."""
        while True:
            cut = None
            if self.chance.random() < _CUTS:
                cut = Cut(self.chance.randrange(_MOST_BYTES), by_reset=self.chance.random() < _HALF)
            gateway = self.chance.choice(self._context.gateways)
            yield Step(gateway, self.chance.choice(bindings), cut)

    async def request_until_answered(
        self, method: str, path: str, body: Json | None = None, key: str = ""
    ) -> httpx.Response:
        """Send a request to any gateway until an answer is final, and return that one."""
        headers = {"Idempotency-Key": key} if key else {}
        while True:
            url = f"{self.chance.choice(self._context.gateways)}/v1/agents/{self.agent}/{path}"
            try:
                response = await self._context.http.request(method, url, json=body, headers=headers)
            except httpx.TransportError:
                pass
            else:
                if response.status_code not in _AGAIN:
                    return response
            await asyncio.sleep(_PAUSE * self.chance.random())


class ImpatientFollower(Follower):
    """Closes a connection that is silent for too long: its gateway may be frozen."""

    _silence: asyncio.Timeout

    async def _connect(self, step: Step) -> None:
        try:
            async with asyncio.timeout(_SILENCE) as self._silence:
                await super()._connect(step)
        except TimeoutError:
            raise ConnectionCut("silence") from None

    def _take(self, received: Received) -> None:
        super()._take(received)
        self._silence.reschedule(asyncio.get_running_loop().time() + _SILENCE)


class TaskFollower(ImpatientFollower):
    """Begins a task with an idempotency key and follows it, over all bindings of A2A."""

    def __init__(self, agent: str, text: str, name: str, key: str) -> None:
        """Send `text` as the message `name` with the idempotency key `key`."""
        super().__init__(agent, text)
        self._name, self._key = name, key

    @property
    def state(self) -> str:
        """The state in the last event that has one."""
        states = (state_of(received.event) for received in reversed(self.received))
        return next((state for state in states if state), "")

    def _ask(self, step: Step) -> Ask:
        return replace(super()._ask(step), name=self._name, key=self._key)


class TaskClient(Client):
    """Sends a message with an idempotency key, again if it may not have been accepted."""

    agents: tuple[str, ...] = ("plain", "careful", "blocking", "asking")

    def __init__(self, context: ClientContext, number: int) -> None:
        """Begin with `work`."""
        super().__init__(context, number)
        self._follower = TaskFollower(self.agent, self.text, self.name, self.key)
        self.view: Json | None = None
        """The task as a gateway returned it at the end; None if it was erased or not requested."""

    @property
    def key(self) -> str:
        """The idempotency key of its first message."""
        return self.name

    @property
    def follower(self) -> TaskFollower:
        return self._follower

    @property
    def bindings(self) -> Sequence[Binding]:
        """The bindings that it may use next."""
        return A2A

    async def work(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                act = group.create_task(self.act())
                await self._follow_to_end()
                act.cancel()
        except* OutcomeUnknown:
            self.gave_up = True
        if self.outcome_name == "ended":
            response = await self.request_until_answered("GET", f"tasks/{self.follower.task}")
            self.view = response.json() if response.is_success else None

    async def act(self) -> None:
        """Act on the task while it is followed."""

    async def say(self, text: str, key: str) -> httpx.Response:
        """Send a follow-up and return the answer."""
        output = message(text, taskId=self.follower.task, messageId=key)
        body = {"message": output, "configuration": {"returnImmediately": True}}
        return await self.request_until_answered("POST", "message:send", body, key)

    async def _follow_to_end(self) -> None:
        while True:
            try:
                await self.follower.follow(self._connections())
            except Refused as refused:
                if not is_gone(str(refused)):
                    raise WrongAnswer(f"{self.agent} {self.follower.task}: {refused}") from refused
                self.expired = True
                return
            if self.follower.state != "INPUT_REQUIRED":
                return
            # More follows, even if the task is erased before the client receives the answer.
            self.follower.over = False
            response = await self.say(self.text, f"{self.name}-answer")
            if response.is_error and not (self.may_end_as - {"COMPLETED"}):
                if not is_gone(response.text):
                    raise WrongAnswer(f"{self.follower.task} takes no answer: {response.text}")
                self.expired = True
                return

    def _connections(self) -> Iterator[Step]:
        while True:
            yield next(self.steps(self.bindings))


class CancelingClient(TaskClient):
    """Cancels its task at a random time."""

    agents: tuple[str, ...] = ("plain", "careful", "blocking", "asking", "manager")

    def __init__(self, context: ClientContext, number: int) -> None:
        super().__init__(context, number)
        self.may_end_as = {"COMPLETED", "CANCELED"}

    async def act(self) -> None:
        await self.follower.told.wait()
        await asyncio.sleep(self.chance.uniform(0, 2))
        response = await self.request_until_answered("POST", f"tasks/{self.follower.task}:cancel")
        is_over = "TASK_NOT_CANCELABLE" in response.text or is_gone(response.text)
        if response.is_error and not is_over:
            raise WrongAnswer(f"{self.follower.task} can't be canceled: {response.text}")


class DeletingClient(TaskClient):
    """Deletes its task at a random time, ended or not."""

    agents: tuple[str, ...] = ("plain", "careful", "blocking", "asking")

    def __init__(self, context: ClientContext, number: int) -> None:
        super().__init__(context, number)
        self.may_end_as = {"COMPLETED", "CANCELED"}

    async def work(self) -> None:
        await super().work()
        await self._delete()

    async def act(self) -> None:
        await self.follower.told.wait()
        await asyncio.sleep(self.chance.uniform(0, 2))
        await self._delete()

    async def _delete(self) -> None:
        response = await self.request_until_answered("DELETE", f"tasks/{self.follower.task}")
        if response.is_error and not is_gone(response.text):
            raise WrongAnswer(f"{self.follower.task} can't be deleted: {response.text}")


class FollowUpClient(TaskClient):
    """Sends follow-ups while its task is running."""

    agents: tuple[str, ...] = ("plain", "careful", "blocking", "steered")

    async def act(self) -> None:
        await self.follower.told.wait()
        for number in range(1, self.chance.randrange(1, _FOLLOW_UPS) + 1):
            await asyncio.sleep(self.chance.uniform(0, 0.5))
            text = f"{self.chance.randrange(1, 9)} 20 {self.name[:6]}-{number}"
            response = await self.say(text, f"{self.name}-{number}")
            if response.is_success:
                self.accepted.append(text)
            elif response.status_code != httpx.codes.BAD_REQUEST:  # It is over.
                return


class DisconnectingClient(TaskClient):
    """Disconnects right after its message, before it can be answered, and reconnects later."""

    def _connections(self) -> Iterator[Step]:
        gateway = self.chance.choice(self._context.gateways)
        yield Step(gateway, self.chance.choice(A2A), Cut(0, by_reset=self.chance.random() < _HALF))
        yield from super()._connections()


class KeylessClient(TaskClient):
    """Sends without a key: repeats it only if the answer says so, else follows the named task."""

    @property
    def key(self) -> str:
        return ""

    @property
    def follower(self) -> TaskFollower:
        return self._keyless_follower

    def __init__(self, context: ClientContext, number: int) -> None:
        super().__init__(context, number)
        self._keyless_follower = KeylessFollower(self.agent, self.text, self.name, "")

    def _connections(self) -> Iterator[Step]:
        while not self.follower.task:
            gateway = self.chance.choice(self._context.gateways)
            yield Step(gateway, self.chance.choice((REST_POST, JSON_RPC)))
        yield from super()._connections()


class KeylessFollower(TaskFollower):
    """Begins a task without a key and obeys every answer."""

    _named_at: float | None = None

    @property
    def joined(self) -> bool:
        return self._named_at is not None

    async def _connect(self, step: Step) -> None:
        try:
            await super()._connect(step)
        except NotListening:
            raise
        except ConnectionCut as cut:
            if not self.task:
                raise OutcomeUnknown from cut
            raise
        except Refused as refused:
            self._obey(refused)
            raise
        if not (self.task or self.over):
            # Gateways of some earlier revisions end a stream before its first event.
            raise OutcomeUnknown("the stream ended before it named its task")

    def _obey(self, refused: Refused) -> None:
        """Return if the same request may be sent again.

        Raises:
            ConnectionCut: the task may be followed instead.
            OutcomeUnknown, WrongAnswer: neither.
        """
        now = asyncio.get_running_loop().time()
        if self.task:
            if "UNSUPPORTED_OPERATION" in str(refused) and not self.received:
                raise OutcomeUnknown("it ended before it was followed") from refused
            is_unknown = "TASK_NOT_FOUND" in str(refused) and not self.received
            if self._named_at is None or not is_unknown:
                return
            if now > self._named_at + _UNSETTLED:
                raise OutcomeUnknown from refused
            raise ConnectionCut("the task is not found yet") from refused
        if refused.task:
            self.task, self._named_at = refused.task, now
            self.told.set()
            raise ConnectionCut("it may have been accepted") from refused
        if not refused.may_be_sent_again:
            raise WrongAnswer(f"the refusal has no Retry-After and no task: {refused}") from refused


class RunFollower(ImpatientFollower, RunClient):
    """Follows an AG-UI run, and reconnects if a gateway ends the stream early."""

    def _take(self, received: Received) -> None:
        if has_passed(received.event):
            # Open messages were closed before the early end, and open again after the cursor.
            while self.received and self.received[-1].event["type"] == "TEXT_MESSAGE_END":
                self.received.pop()
            raise ConnectionCut(str(received.event))
        if received.event.get("code") == _LOG_LOST:
            raise Refused(httpx.codes.GONE, str(received.event))
        super()._take(received)


class AguiClient(Client):
    """Starts an AG-UI run, and reconnects to it over server-sent events and WebSockets.

    Without keys: it starts a run of which it has received nothing again, under another id.
    """

    def __init__(self, context: ClientContext, number: int) -> None:
        """Begin with `work`."""
        super().__init__(context, number)
        self._follower = RunFollower(self.agent, self.text)

    @property
    def follower(self) -> RunFollower:
        return self._follower

    async def work(self) -> None:
        try:
            await self.follower.follow(self.steps(AGUI))
        except Refused as refused:
            # Erased before the client came back, or while it was reading.
            if not any(code in str(refused) for code in ("run_unknown", _LOG_LOST)):
                raise WrongAnswer(f"{self.agent} {self.follower.task}: {refused}") from refused
            self.expired = True


class ForkingClient(TaskClient):
    """Forks its task at a random generation after its end, and waits until the fork is at rest."""

    agents: tuple[str, ...] = ("plain", "careful", "blocking")

    def __init__(self, context: ClientContext, number: int) -> None:
        super().__init__(context, number)
        self.fork: Json | None = None
        """The fork as a gateway returned it at its end; None if it or its source was erased."""

    async def work(self) -> None:
        await super().work()
        if self.outcome_name == "ended" and self.follower.task and (fork := await self._forked()):
            self.fork = await self._at_rest(fork)

    async def _forked(self) -> str | None:
        last = int(self.follower.cursor.partition(":")[2])
        generation = self.chance.randrange(1, last + 1)
        path, content = f"tasks/{self.follower.task}:fork", {"generation": generation}
        response = await self.request_until_answered("POST", path, content, f"{self.name}-fork")
        if is_gone(response.text):
            return None
        if response.is_error:
            raise WrongAnswer(f"{self.follower.task} can't be forked: {response.text}")
        return str(response.json()["id"])

    async def _at_rest(self, fork: str) -> Json | None:
        while True:
            response = await self.request_until_answered("GET", f"tasks/{fork}")
            if is_gone(response.text):
                return None
            if response.is_error:
                raise WrongAnswer(f"{fork}, a fork, can't be read: {response.text}")
            task: Json = response.json()
            if task["status"]["state"] not in _AT_WORK:
                return task
            await asyncio.sleep(_PAUSE)


def is_gone(error: str) -> bool:
    """Return whether an error says that the task was erased; the verdict checks that it was."""
    return any(text in error for text in _GONE)


class DelegatingClient(TaskClient):
    """Uses an agent that delegates, three levels deep: thirteen tasks."""

    agents: tuple[str, ...] = ("manager",)


class SteppingClient(TaskClient):
    """Uses agents that do steps, by themselves or by those that they delegate to."""

    agents: tuple[str, ...] = ("stepping", "branching", "waiting", "foreman")


CLIENTS: tuple[tuple[int, type[Client]], ...] = (
    (6, TaskClient),
    (4, AguiClient),
    (4, FollowUpClient),
    (2, KeylessClient),
    (2, CancelingClient),
    (1, DisconnectingClient),
    (1, DeletingClient),
    (1, ForkingClient),
    (1, DelegatingClient),
    (2, SteppingClient),
)
"""The kinds, each with its relative frequency."""


def client_of(context: ClientContext, number: int) -> Client:
    """Return the client `number`; the kinds take turns."""
    kinds = [kind for weight, kind in CLIENTS for _ in range(weight)]
    random.Random(f"{context.seed}/clients").shuffle(kinds)
    return kinds[number % len(kinds)](context, number)
