"""The requests of an open console, and a check of the answers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from itertools import cycle

import httpx

from headrace.model.events import Json
from tests.chaos.answers import RULES
from tests.chaos.clients import ClientContext
from tests.chaos.firings import AGENT, Sources
from tests.support.waiting import eventually

_EACH = 0.5
_SETTLES = 120.0
_AWAY = {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE}
"""Answers of a gateway that is draining, or whose task state is away."""
_SWITCHED = next(iter(RULES))
"""The trigger that the console pauses and resumes: its events wait."""


class Console:
    """Requests the data of every page in a loop, at each gateway in turn."""

    def __init__(self, context: ClientContext, sources: Sources) -> None:
        """Include the triggers and schedules of `sources`."""
        self.calls = 0
        """Requests with a correct answer."""
        self.problems = list[str]()
        self._http, self._gateways = context.http, cycle(context.gateways)
        self._triggers, self._schedules = sources.triggers, sources.schedules
        self._switched = sources.trigger(_SWITCHED)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Request all pages during a block."""
        looking = asyncio.create_task(self._request_all())
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.wait([looking])
        if not looking.cancelled():
            looking.result()

    async def settle(self) -> list[str]:
        """Return the problems so far, and which request fails without faults, too."""
        try:
            for method, path, content in self._requests():
                asking = partial(self._ask, method, path, content)
                await eventually(asking, f"{method} {path} is answered", _SETTLES)
        except AssertionError as late:
            self.problems.append(str(late))
        return self.problems

    async def _request_all(self) -> None:
        while True:
            for method, path, content in self._requests():
                await self._ask(method, path, content)
            await asyncio.sleep(_EACH)

    def _requests(self) -> Iterator[tuple[str, str, Json | None]]:
        """Yield the requests of all pages; the last one leaves all triggers resumed."""
        tasks = f"agents/{AGENT}/tasks?pageSize=10&historyLength=0"
        pages = "agents", "fleet", "usage", "webhook-deliveries", "dead-letters", "triggers"
        listed = "schedules?limit=100", tasks, f"fleet/agents/{AGENT}/versions"
        named = [f"triggers/{name}" for name in self._triggers]
        named += [f"schedules/{name}" for name in self._schedules[:2]]
        yield from (("GET", path, None) for path in (*pages, *listed, *named))
        if self._triggers:
            for paused in (True, False):
                yield "PUT", f"triggers/{_SWITCHED}", self._switched | {"paused": paused}

    async def _ask(self, method: str, path: str, content: Json | None) -> bool:
        """Send a request to the next gateway, and return whether it was answered."""
        gateway = next(self._gateways)
        try:
            answer = await self._http.request(method, f"{gateway}/v1/{path}", json=content)
        except httpx.HTTPError:
            return False
        if answer.status_code in _AWAY:
            return False
        if problem := self._problem(path, answer):
            self.problems.append(f"{method} {path} at {gateway}: {problem}")
            return False
        self.calls += 1
        return True

    def _problem(self, path: str, answer: httpx.Response) -> str:
        if answer.status_code != HTTPStatus.OK:
            return f"{answer.status_code} {answer.text}"
        content: Json = answer.json()
        match path.partition("?")[0]:
            case "triggers":
                missing = {*self._triggers} - {one["name"] for one in content["triggers"]}
            case "schedules":
                missing = {*self._schedules} - {one["name"] for one in content["schedules"]}
            case "agents":
                missing = {AGENT} - {one["id"] for one in content["agents"]}
            case _:
                missing = set[str]()
        return f"{sorted(missing)} are not in it" if missing else ""
