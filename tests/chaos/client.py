"""A client that comes back wherever it is cut off, and keeps every byte that it was sent."""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import httpx

from tests.chaos.agents import answer_to
from tests.support.event_stream import Frame, Json, frames
from tests.support.plain_a2a import message

ENDED = {"COMPLETED", "FAILED", "CANCELED", "REJECTED"}
AGENTS = ("plain", "careful", "asking")
DELEGATING = "manager"

_CUTS = 0.25
"""Share of the connections that the client itself cuts."""
_CANCELS = 0.06
_CANCELS_OF_FAMILIES = 0.2
_EACH = 20
"""One client in so many asks an agent that asks others, three deep: thirteen tasks."""
_MOST, _MOST_OF_A_CHILD = 40, 15
"""Bounds of what is counted to."""
_PAUSE = 0.3
_AGAIN = {429, 500, 502, 503, 504}
_PATIENCE = httpx.Timeout(20.0)


class Broken(AssertionError):
    """A gateway answered what it must not answer."""


class Client:
    """Starts one task and follows it to its end, through whichever gateway answers."""

    def __init__(
        self, http: httpx.AsyncClient, gateways: Sequence[str], seed: int, number: int
    ) -> None:
        """Choose by `seed` and `number` alone."""
        self._http, self._gateways = http, gateways
        self._chance = random.Random(f"{seed}/{number}")
        delegates = number % _EACH == 0
        self.agent = DELEGATING if delegates else self._chance.choice(AGENTS)
        most = _MOST_OF_A_CHILD if delegates else _MOST
        self.text = f"{self._chance.randrange(1, most)} {self._chance.randrange(0, 60)}"
        self.cancels = self._chance.random() < (_CANCELS_OF_FAMILIES if delegates else _CANCELS)
        self.seen: list[Frame] = []
        self.connections = 0
        self._key = uuid.UUID(int=self._chance.getrandbits(128), version=4).hex
        self._answered = False

    @property
    def task(self) -> str:
        """The task's id; empty as long as the client knows none."""
        return str(self.seen[0].event["task"]["id"]) if self.seen else ""

    @property
    def state(self) -> str:
        """The state that the last frame with one told."""
        return next((frame.state for frame in reversed(self.seen) if frame.state), "")

    @property
    def expected(self) -> str:
        """The whole text of the answer."""
        return answer_to(self.agent, self.text)

    @property
    def data(self) -> list[bytes]:
        """The events, byte by byte."""
        return [frame.raw.partition(b"data: ")[2] for frame in self.seen]

    async def follow(self) -> None:
        """Return when the task has ended."""
        async with asyncio.TaskGroup() as group:
            calling_off = group.create_task(self._call_off())
            while self.state not in ENDED:
                await self._go_on()
            calling_off.cancel()

    async def _go_on(self) -> None:
        try:
            if self.state == "INPUT_REQUIRED" and not self._answered:
                self._answered = await self._answer()
            else:
                await self._connect()
        except (httpx.TransportError, Cut):
            await asyncio.sleep(_PAUSE * self._chance.random())

    async def _connect(self) -> None:
        self.connections += 1
        leaves = self._chance.randrange(1, 15) if self._chance.random() < _CUTS else 0
        async with self._opened() as response:
            await _check(response)
            if response.headers.get("headrace-recovered") == "false":
                raise Broken(f"{self.task}: {self.seen[-1].id} is said to be lost")
            async for frame in _whole(response):
                self.seen.append(frame)
                leaves -= 1
                if leaves == 0:
                    return

    def _opened(self) -> AbstractAsyncContextManager[httpx.Response]:
        if not self.seen:
            return self._stream("message:stream", {"message": self._message()}, self._key)
        return self._http.stream(
            "GET",
            f"{self._base()}/tasks/{self.task}:subscribe",
            headers={"Last-Event-ID": self.seen[-1].id},
            timeout=_PATIENCE,
        )

    async def _answer(self) -> bool:
        body = {
            "message": self._message(taskId=self.task),
            "configuration": {"returnImmediately": True},
        }
        async with self._stream("message:send", body, f"{self._key}-answer") as response:
            if response.status_code == httpx.codes.BAD_REQUEST and self.cancels:
                return True
            await _check(response)
        return True

    async def _call_off(self) -> None:
        if not self.cancels:
            return
        await asyncio.sleep(self._chance.uniform(0, 2))
        while self.state not in ENDED:
            try:
                if self.task:
                    url = f"{self._base()}/tasks/{self.task}:cancel"
                    response = await self._http.post(url, timeout=_PATIENCE)
                    if response.status_code not in _AGAIN:
                        return
            except httpx.TransportError:
                pass
            await asyncio.sleep(_PAUSE)

    def _message(self, **fields: str) -> Json:
        return message(self.text, **fields) | {"messageId": self._key}

    def _stream(
        self, route: str, body: Mapping[str, object], key: str
    ) -> AbstractAsyncContextManager[httpx.Response]:
        headers = {"Idempotency-Key": key}
        url = f"{self._base()}/{route}"
        return self._http.stream("POST", url, json=body, headers=headers, timeout=_PATIENCE)

    def _base(self) -> str:
        return f"{self._chance.choice(self._gateways)}/v1/agents/{self.agent}"


class Cut(Exception):
    """The connection or the gateway went away; coming back helps."""


async def _check(response: httpx.Response) -> None:
    if response.status_code in _AGAIN:
        raise Cut
    if response.is_error:
        raise Broken(f"{response.status_code}: {(await response.aread()).decode()}")


async def _whole(response: httpx.Response) -> AsyncIterator[Frame]:
    if response.status_code == httpx.codes.NO_CONTENT:
        return
    stream = frames(response)
    while True:
        try:
            yield await anext(stream)
        except StopAsyncIteration:
            return
        except AssertionError as cut:  # It was torn within a frame.
            raise Cut from cut
