"""One task, seen through every door at once, while the gateways die under its clients."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import httpx

from tests.support import extra_services
from tests.support.doors import ai_sdk, mcp, openai
from tests.support.event_stream import frames
from tests.support.fleet import Fleet
from tests.support.waiting import eventually

_WHOLE = "".join(f"{number} " for number in range(1, 41))
_AGENT = "/v1/agents/counter"


class Watched(Protocol):
    """A task as a client of some door sees it."""

    text: str

    async def rest(self) -> None:
        """Read to the end."""

    async def resume(self, url: str) -> None:
        """Go on at another gateway."""


class _Events:
    """A stream of server-sent events that is opened again after the last id."""

    def __init__(
        self, http: httpx.AsyncClient, path: str, text_of: Callable[[Any], str], last: str = ""
    ) -> None:
        self._http, self._path, self._text_of, self._last = http, path, text_of, last
        self._request: tuple[str, str, Any] | None = None
        self.text, self.task = "", asyncio.get_running_loop().create_future()

    async def begin(self, url: str, body: Any) -> None:  # noqa: ANN401  # JSON
        """Post `body` instead of reading after an id; `rest` reads its answer."""
        self._request = "POST", url, body

    async def resume(self, url: str) -> None:
        self._request = "GET", f"{url}{self._path}", None

    async def rest(self) -> None:
        assert self._request is not None
        method, url, body = self._request
        headers = {"Last-Event-ID": self._last} if self._last else {}
        async with self._http.stream(method, url, json=body, headers=headers) as response:
            assert response.status_code == 200
            if not self.task.done():
                self.task.set_result(response.headers.get("Headrace-Task", ""))
            async for frame in frames(response):
                self.text += self._text_of(frame.json)
                self._last = frame.id or self._last


def _said_over_agui(event: Any) -> str:  # noqa: ANN401  # any JSON
    return str(event.get("delta", "")) if event["type"] == "TEXT_MESSAGE_CONTENT" else ""


def _said_over_a2a(event: Any) -> str:  # noqa: ANN401  # any JSON
    artifact = (event.get("artifactUpdate") or {}).get("artifact") or {}
    return "".join(part.get("text", "") for part in artifact.get("parts") or ())


async def _to_the_end(watched: Watched, gateways: Sequence[str]) -> str:
    """Return what a client has seen that goes on at the next gateway when its own has died."""
    for gateway in gateways:
        # Each client has errors of its own; where the next gateway is dead too, so is the one here.
        with suppress(Exception, asyncio.CancelledError):
            await watched.rest()
            return watched.text
        with suppress(Exception):
            await watched.resume(gateway)
    await watched.rest()
    return watched.text


async def test_every_door_shows_the_same_text_over_two_kills(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    thread = f"all-{tmp_path.name}"
    run = {"threadId": thread, "runId": "r", "state": {}, "tools": [], "context": []}
    message = {"id": "m", "role": "user", "content": "40 150"}
    agui = _Events(http, f"{_AGENT}/ag-ui/attach?threadId={thread}&runId=r", _said_over_agui)
    with ExitStack() as dying:
        doomed = [extra_services.gateway(tmp_path / name, fleet.nats_url) for name in "ab"]
        for process, _ in doomed:
            dying.enter_context(process)
        urls = [*(url for _, url in doomed), fleet.gateways[0]]
        await agui.begin(
            f"{urls[0]}{_AGENT}/ag-ui", {**run, "messages": [message], "forwardedProps": {}}
        )
        seeing = [asyncio.create_task(_to_the_end(agui, urls[1:]))]
        task = await agui.task
        a2a = _Events(http, f"{_AGENT}/tasks/{task}:subscribe", _said_over_a2a, "start")
        await a2a.resume(urls[0])
        async with AsyncExitStack() as opened:
            watched: list[Watched] = [a2a]
            for door in (ai_sdk, mcp, openai):
                watched += [
                    await opened.enter_async_context(one)
                    for one in door.watch(urls[0], "counter", task)
                ]
            seeing += [asyncio.create_task(_to_the_end(one, urls[1:])) for one in watched]
            for (process, _), seen in zip(doomed, ("5 ", "20 "), strict=True):
                await eventually(partial(_has, agui, seen), f"{seen} is seen")
                process.kill()
            texts = await asyncio.gather(*seeing)
    assert texts == [_WHOLE] * 6


async def _has(watched: Watched, text: str) -> bool:
    return text in watched.text
