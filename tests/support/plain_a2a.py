"""A2A over plain HTTP as from curl: without A2A-Version and without the SDK."""

import builtins
import uuid
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import httpx

from tests.support.event_stream import Json
from tests.support.waiting import eventually

_TIMEOUT = httpx.Timeout(90.0)


def message(text: str, **fields: Any) -> Json:  # noqa: ANN401  # any JSON
    """Return a user's message."""
    return {
        "messageId": str(uuid.uuid4()),
        "role": "ROLE_USER",
        "parts": [{"text": text}],
        **fields,
    }


class PlainAgent:
    """One agent at one gateway, over REST; `rpc` is for JSON-RPC."""

    def __init__(self, http: httpx.AsyncClient, gateway: str, agent: str) -> None:
        """Talk to `agent` at `gateway`, a URL."""
        self._http = http
        self.url = f"{gateway}/v1/agents/{agent}"

    async def send(self, text: str, **configuration: Any) -> httpx.Response:  # noqa: ANN401
        """Send a message; blocks until the task ends unless `returnImmediately` is set."""
        body: Json = {"message": message(text)}
        if configuration:
            body["configuration"] = configuration
        return await self._http.post(f"{self.url}/message:send", json=body, timeout=_TIMEOUT)

    def stream(self, text: str, **fields: Any) -> AbstractAsyncContextManager[httpx.Response]:  # noqa: ANN401
        """Send a message and stream what comes of it."""
        return self._http.stream(
            "POST",
            f"{self.url}/message:stream",
            json={"message": message(text, **fields)},
            timeout=_TIMEOUT,
        )

    def subscribe(
        self, task: str, cursor: str | None = None, *, method: str = "GET"
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """Stream a task, from behind `cursor` if given."""
        headers = {} if cursor is None else {"Last-Event-ID": cursor}
        return self._http.stream(
            method, f"{self.url}/tasks/{task}:subscribe", headers=headers, timeout=_TIMEOUT
        )

    async def post(self, route: str, body: Json) -> httpx.Response:
        """Post `body` to one of the agent's routes."""
        return await self._http.post(f"{self.url}/{route}", json=body, timeout=_TIMEOUT)

    async def get(self, task: str) -> httpx.Response:
        """Read a task."""
        return await self._http.get(f"{self.url}/tasks/{task}", timeout=_TIMEOUT)

    async def list(self, **filters: Any) -> httpx.Response:  # noqa: ANN401
        """Read a page of tasks."""
        return await self._http.get(f"{self.url}/tasks", params=filters, timeout=_TIMEOUT)

    async def tasks(self, **filters: Any) -> builtins.list[Json]:  # noqa: ANN401
        """Return the tasks of all pages, once task state can tell."""

        async def page(token: str) -> httpx.Response | None:
            answer = await self.list(**filters, pageSize=100, pageToken=token)
            is_late = answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
            return None if is_late else answer.raise_for_status()

        found, token = builtins.list[Json](), ""
        while True:
            answer = (await eventually(partial(page, token), "tasks are listed")).json()
            found += answer["tasks"]
            if not (token := answer["nextPageToken"]):
                return found

    async def cancel(self, task: str) -> httpx.Response:
        """Cancel a task."""
        return await self._http.post(f"{self.url}/tasks/{task}:cancel", timeout=_TIMEOUT)

    async def rpc(self, method: str, **params: Any) -> httpx.Response:  # noqa: ANN401
        """Call a JSON-RPC method."""
        return await self._http.post(self.url, json=_call(method, params), timeout=_TIMEOUT)

    def rpc_stream(
        self,
        method: str,
        cursor: str | None = None,
        **params: Any,  # noqa: ANN401
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """Call a JSON-RPC method that streams."""
        headers = {} if cursor is None else {"Last-Event-ID": cursor}
        return self._http.stream(
            "POST", self.url, json=_call(method, params), headers=headers, timeout=_TIMEOUT
        )


def _call(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": "call-1", "method": method, "params": params}
