"""Clients that come back wherever they are cut off. A new one is a class and a line in `CLIENTS`.

Each starts one task, does what its kind does beside following it, and obeys what it is told:
it sends again only what it may.
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
from tests.support.resuming_wire import ConnectionCut, Cut

_CUTS = 0.25
"""Share of the connections that the client itself cuts."""
_MOST_BYTES = 20_000
_MOST, _MOST_OF_A_CHILD = 40, 15
"""Bounds of what is counted to."""
_MOST_PAUSE = 60
_PAUSE = 0.3
_SILENCE = 10.0
"""Seconds without an event after which a client asks elsewhere: the gateway may be frozen."""
_AGAIN = {429, 502, 503, 504}
_GONE = ("past retention", "past its retention", "was deleted", "TASK_NOT_FOUND")
"""What is said of a task that was erased; the last when its tombstone has gone, too."""
_LOG_LOST = "log_lost"
"""The code with which AG-UI's streams end whose run was erased; the verdict sees whether it was."""
_AT_WORK = {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}
_UNSETTLED = 60.0
"""Seconds for which a task that may have been accepted is asked for though nobody knows it."""
_FOLLOW_UPS = 4
_HALF = 0.5


class GaveUp(Exception):
    """The client can't know what came of its message, and must not send it again."""


class Broken(AssertionError):
    """A gateway answered what it must not answer."""


@dataclass(frozen=True, slots=True)
class Place:
    """What clients work with."""

    http: httpx.AsyncClient
    gateways: Sequence[str]
    seed: int


class Client(ABC):
    """One client."""

    agents: tuple[str, ...] = ("plain", "careful", "blocking")
    """Those that clients of the kind ask."""

    def __init__(self, place: Place, number: int) -> None:
        """Choose by seed and number alone."""
        self._place = place
        self.chance = random.Random(f"{place.seed}/{number}")
        self.agent = self.chance.choice(self.agents)
        most = _MOST_OF_A_CHILD if self.agent == "manager" else _MOST
        count, pause = self.chance.randrange(1, most), self.chance.randrange(_MOST_PAUSE)
        self.text = f"{count} {pause}"
        self.name = uuid.UUID(int=self.chance.getrandbits(128), version=4).hex
        self.may_end_as = {"COMPLETED"}
        """States that its task may end in."""
        self.accepted = list[str]()
        """Texts of the messages that were accepted while the task was at work."""
        self.gave_up = False
        """Whether it can't know what came of its message."""
        self.expired = False
        """Whether the task was erased before it had seen everything."""

    @property
    @abstractmethod
    def follower(self) -> Follower:
        """What follows the task."""

    @abstractmethod
    async def work(self) -> None:
        """Return when the task has ended, or nothing more can be known of it."""

    @property
    def came_to(self) -> str:
        """What came of it, in a word; empty: it still waits."""
        if self.expired:
            return "erased"
        if self.gave_up:
            return "unknown"
        return "ended" if self.follower.over else ""

    def steps(self, bindings: Sequence[Binding]) -> Iterator[Step]:
        """Return connections without end, some of which it cuts."""
        while True:
            cut = None
            if self.chance.random() < _CUTS:
                cut = Cut(self.chance.randrange(_MOST_BYTES), rudely=self.chance.random() < _HALF)
            gateway = self.chance.choice(self._place.gateways)
            yield Step(gateway, self.chance.choice(bindings), cut)

    async def insist(
        self, method: str, path: str, body: Json | None = None, key: str = ""
    ) -> httpx.Response:
        """Return the first answer, of whichever gateway, that is not to try again."""
        headers = {"Idempotency-Key": key} if key else {}
        while True:
            url = f"{self.chance.choice(self._place.gateways)}/v1/agents/{self.agent}/{path}"
            try:
                response = await self._place.http.request(method, url, json=body, headers=headers)
            except httpx.TransportError:
                pass
            else:
                if response.status_code not in _AGAIN:
                    return response
            await asyncio.sleep(_PAUSE * self.chance.random())


class Impatient(Follower):
    """Gives up a connection that says nothing for too long: its gateway may be frozen."""

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


class TaskFollower(Impatient):
    """Begins a task under a key and follows it, over all of A2A's protocols."""

    def __init__(self, agent: str, text: str, name: str, key: str) -> None:
        """Send `text` as the message called `name` under `key`."""
        super().__init__(agent, text)
        self._name, self._key = name, key

    @property
    def state(self) -> str:
        """The state that the last event with one told."""
        states = (state_of(received.event) for received in reversed(self.received))
        return next((state for state in states if state), "")

    def _ask(self, step: Step) -> Ask:
        return replace(super()._ask(step), name=self._name, key=self._key)


class TaskClient(Client):
    """Sends a message under a key, again where it may not have been taken."""

    agents: tuple[str, ...] = ("plain", "careful", "blocking", "asking")

    def __init__(self, place: Place, number: int) -> None:
        """Begin with `work`."""
        super().__init__(place, number)
        self._follower = TaskFollower(self.agent, self.text, self.name, self.key)
        self.view: Json | None = None
        """The task as a gateway showed it at the end; None: it was erased, or nobody looked."""

    @property
    def key(self) -> str:
        """The key that it sends its first message under."""
        return self.name

    @property
    def follower(self) -> TaskFollower:
        return self._follower

    @property
    def bindings(self) -> Sequence[Binding]:
        """The protocols that it speaks next."""
        return A2A

    async def work(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                reorder_buffer = group.create_task(self.reorder_buffer())
                await self._see_the_end()
                reorder_buffer.cancel()
        except* GaveUp:
            self.gave_up = True
        if self.came_to == "ended":
            response = await self.insist("GET", f"tasks/{self.follower.task}")
            self.view = response.json() if response.is_success else None

    async def reorder_buffer(self) -> None:
        """Do what the kind does beside following."""

    async def say(self, text: str, key: str) -> httpx.Response:
        """Return what comes of a further message."""
        said = message(text, taskId=self.follower.task, messageId=key)
        body = {"message": said, "configuration": {"returnImmediately": True}}
        return await self.insist("POST", "message:send", body, key)

    async def _see_the_end(self) -> None:
        while True:
            try:
                await self.follower.follow(self._steps())
            except Refused as refused:
                if not is_gone(str(refused)):
                    raise Broken(f"{self.agent} {self.follower.task}: {refused}") from refused
                self.expired = True
                return
            if self.follower.state != "INPUT_REQUIRED":
                return
            # More follows, also where the task is erased before its client hears of the answer.
            self.follower.over = False
            response = await self.say(self.text, f"{self.name}-answer")
            if response.is_error and not (self.may_end_as - {"COMPLETED"}):
                if not is_gone(response.text):
                    raise Broken(f"{self.follower.task} takes no answer: {response.text}")
                self.expired = True
                return

    def _steps(self) -> Iterator[Step]:
        while True:
            yield next(self.steps(self.bindings))


class Canceler(TaskClient):
    """Cancels its task at some time."""

    agents: tuple[str, ...] = ("plain", "careful", "blocking", "asking", "manager")

    def __init__(self, place: Place, number: int) -> None:
        super().__init__(place, number)
        self.may_end_as = {"COMPLETED", "CANCELED"}

    async def reorder_buffer(self) -> None:
        await self.follower.told.wait()
        await asyncio.sleep(self.chance.uniform(0, 2))
        response = await self.insist("POST", f"tasks/{self.follower.task}:cancel")
        is_over = "TASK_NOT_CANCELABLE" in response.text or is_gone(response.text)
        if response.is_error and not is_over:
            raise Broken(f"{self.follower.task} can't be canceled: {response.text}")


class Deleter(TaskClient):
    """Deletes its task at some time, over or not."""

    agents: tuple[str, ...] = ("plain", "careful", "blocking", "asking")

    def __init__(self, place: Place, number: int) -> None:
        super().__init__(place, number)
        self.may_end_as = {"COMPLETED", "CANCELED"}

    async def work(self) -> None:
        await super().work()
        await self._delete()

    async def reorder_buffer(self) -> None:
        await self.follower.told.wait()
        await asyncio.sleep(self.chance.uniform(0, 2))
        await self._delete()

    async def _delete(self) -> None:
        response = await self.insist("DELETE", f"tasks/{self.follower.task}")
        if response.is_error and not is_gone(response.text):
            raise Broken(f"{self.follower.task} can't be deleted: {response.text}")


class Talker(TaskClient):
    """Sends further messages while its task is at work."""

    agents: tuple[str, ...] = ("plain", "careful", "blocking", "steered")

    async def reorder_buffer(self) -> None:
        await self.follower.told.wait()
        for number in range(1, self.chance.randrange(1, _FOLLOW_UPS) + 1):
            await asyncio.sleep(self.chance.uniform(0, 0.5))
            text = f"{self.chance.randrange(1, 9)} 20 {self.name[:6]}-{number}"
            response = await self.say(text, f"{self.name}-{number}")
            if response.is_success:
                self.accepted.append(text)
            elif response.status_code != httpx.codes.BAD_REQUEST:  # It is over.
                return


class Fleeting(TaskClient):
    """Sends its message and is gone before anybody can answer; comes back later."""

    def _steps(self) -> Iterator[Step]:
        gateway = self.chance.choice(self._place.gateways)
        yield Step(gateway, self.chance.choice(A2A), Cut(0, rudely=self.chance.random() < _HALF))
        yield from super()._steps()


class Keyless(TaskClient):
    """Sends without a key: again only where it is told so, else it follows what it is told of."""

    @property
    def key(self) -> str:
        return ""

    @property
    def follower(self) -> TaskFollower:
        return self._keyless

    def __init__(self, place: Place, number: int) -> None:
        super().__init__(place, number)
        self._keyless = KeylessFollower(self.agent, self.text, self.name, "")

    def _steps(self) -> Iterator[Step]:
        while not self.follower.task:
            gateway = self.chance.choice(self._place.gateways)
            yield Step(gateway, self.chance.choice((REST_POST, JSON_RPC)))
        yield from super()._steps()


class KeylessFollower(TaskFollower):
    """Begins a task, obeying every answer."""

    _named_at: float | None = None

    @property
    def joined(self) -> bool:
        return self._named_at is not None

    async def _connect(self, step: Step) -> None:
        now = asyncio.get_running_loop().time()
        try:
            await super()._connect(step)
        except ConnectionCut as cut:
            if not self.task and "refused" not in str(cut).lower():
                raise GaveUp from cut
            raise
        except Refused as refused:
            if self.task:
                is_unknown = "TASK_NOT_FOUND" in str(refused) and not self.received
                if self._named_at is None or not is_unknown:
                    raise
                if now > self._named_at + _UNSETTLED:
                    raise GaveUp from refused
                raise ConnectionCut("nobody knows it yet") from refused
            if refused.task:
                self.task, self._named_at = refused.task, now
                self.told.set()
                raise ConnectionCut("it may have been accepted") from refused
            if not refused.may_be_sent_again:
                raise Broken(f"neither to be sent again nor named: {refused}") from refused
            raise


class RunFollower(Impatient, RunClient):
    """Follows a run of AG-UI's, and comes back where a gateway says that it breaks off."""

    def _take(self, received: Received) -> None:
        if has_passed(received.event):
            # What was open has been closed for good measure, and is opened again behind the cursor.
            while self.received and self.received[-1].event["type"] == "TEXT_MESSAGE_END":
                self.received.pop()
            raise ConnectionCut(str(received.event))
        if received.event.get("code") == _LOG_LOST:
            raise Refused(httpx.codes.GONE, str(received.event))
        super()._take(received)


class AguiClient(Client):
    """Starts a run of AG-UI's, and comes back to it over server-sent events and WebSockets.

    It knows no keys: a run of which it has seen nothing it starts anew, under another name.
    """

    def __init__(self, place: Place, number: int) -> None:
        """Begin with `work`."""
        super().__init__(place, number)
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
                raise Broken(f"{self.agent} {self.follower.task}: {refused}") from refused
            self.expired = True


class Forker(TaskClient):
    """Forks its task at some generation once it is over, and waits until the fork rests."""

    agents: tuple[str, ...] = ("plain", "careful", "blocking")

    def __init__(self, place: Place, number: int) -> None:
        super().__init__(place, number)
        self.fork: Json | None = None
        """The fork as a gateway showed it at its end; None: it or its source was erased."""

    async def work(self) -> None:
        await super().work()
        if self.came_to == "ended" and self.follower.task and (fork := await self._forked()):
            self.fork = await self._at_rest(fork)

    async def _forked(self) -> str | None:
        last = int(self.follower.cursor.partition(":")[2])
        generation = self.chance.randrange(1, last + 1)
        path, asked = f"tasks/{self.follower.task}:fork", {"generation": generation}
        response = await self.insist("POST", path, asked, f"{self.name}-fork")
        if is_gone(response.text):
            return None
        if response.is_error:
            raise Broken(f"{self.follower.task} can't be forked: {response.text}")
        return str(response.json()["id"])

    async def _at_rest(self, fork: str) -> Json | None:
        while True:
            response = await self.insist("GET", f"tasks/{fork}")
            if is_gone(response.text):
                return None
            if response.is_error:
                raise Broken(f"{fork}, a fork, can't be read: {response.text}")
            task: Json = response.json()
            if task["status"]["state"] not in _AT_WORK:
                return task
            await asyncio.sleep(_PAUSE)


def is_gone(said: str) -> bool:
    """Tell whether an answer is that the task was erased; the verdict sees whether it was."""
    return any(words in said for words in _GONE)


class Delegator(TaskClient):
    """Asks an agent that asks others, three deep: thirteen tasks."""

    agents: tuple[str, ...] = ("manager",)


CLIENTS: tuple[tuple[int, type[Client]], ...] = (
    (6, TaskClient),
    (4, AguiClient),
    (4, Talker),
    (2, Keyless),
    (2, Canceler),
    (1, Fleeting),
    (1, Deleter),
    (1, Forker),
    (1, Delegator),
)
"""Each kind, and how many there are of it in relation to the others."""


def client_of(place: Place, number: int) -> Client:
    """Return the client of that number; every so many of them are of all kinds."""
    kinds = [kind for weight, kind in CLIENTS for _ in range(weight)]
    random.Random(f"{place.seed}/clients").shuffle(kinds)
    return kinds[number % len(kinds)](place, number)
