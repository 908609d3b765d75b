"""Both JSON bindings behind one interface, so that each test runs with both."""

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx

type Json = dict[str, Any]

_VIEWS = {
    "GetTask": "/tasks/{id}",
    "ListTasks": "/tasks",
    "GetExtendedAgentCard": "/extendedAgentCard",
    "ListTaskPushNotificationConfigs": "/tasks/{taskId}/pushNotificationConfigs",
    "GetTaskPushNotificationConfig": "/tasks/{taskId}/pushNotificationConfigs/{id}",
    "SubscribeToContext": "/contexts/{contextId}:subscribe",
}
_DELETIONS = {
    "DeleteTask": "/tasks/{id}",
    "DeleteTaskPushNotificationConfig": "/tasks/{taskId}/pushNotificationConfigs/{id}",
}
_ACTS = {
    "SendMessage": "/message:send",
    "SendStreamingMessage": "/message:stream",
    "CancelTask": "/tasks/{id}:cancel",
    "ForkTask": "/tasks/{id}:fork",
    "SubscribeToTask": "/tasks/{id}:subscribe",
    "CreateTaskPushNotificationConfig": "/tasks/{taskId}/pushNotificationConfigs",
}


def message(text: str = "hi", **fields: object) -> Json:
    """Return SendMessage parameters with one text part; `fields` go on the message."""
    output = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}], **fields}
    return {"message": output}


@dataclass
class Refusal:
    """What both bindings say of an error."""

    status: int
    """HTTP status."""
    code: int
    """JSON-RPC code; on REST the HTTP status again."""
    reason: str
    text: str
    fields: dict[str, str] = field(default_factory=dict)
    """Rules by the fields that break them."""
    headers: httpx.Headers = field(default_factory=httpx.Headers)


@dataclass
class Stream:
    """An event stream: its head, and its frames as they come."""

    response: httpx.Response
    binding: "Talk"

    async def frames(self) -> AsyncIterator[tuple[str, Json]]:
        """Yield cursor and StreamResponse of each frame."""
        cursor = ""
        async for line in self.response.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                cursor = value
            elif name == "data":
                yield cursor, self.binding.result(json.loads(value))

    async def rest(self) -> list[tuple[str, Json]]:
        """Return all frames to the end."""
        return [frame async for frame in self.frames()]


class Talk(ABC):
    """A client of one agent."""

    def __init__(self, http: httpx.AsyncClient, agent: str | None = None) -> None:
        """Talk to `agent` over `http`; None: to the default agent, at the root."""
        self.http = http
        self.base = f"/v1/agents/{agent}" if agent else ""

    def to(self, agent: str) -> "Talk":
        """Return the same binding to another agent."""
        return type(self)(self.http, agent)

    async def call(self, operation: str, params: Json) -> Json:
        """Return the result.

        Raises:
            AssertionError: it was refused.
        """
        response = await self.send(operation, params)
        assert response.is_success, response.text
        body = response.json()
        assert "error" not in body, body
        return self.result(body)

    async def refused(self, operation: str, params: Any) -> Refusal:  # noqa: ANN401 - bad input
        """Return how it was refused."""
        return self._refusal(await self.send(operation, params))

    async def refused_stream(self, operation: str, params: Json, after: str) -> Refusal:
        """Return how a stream from a cursor on was refused."""
        async with self.open(operation, params, {"Last-Event-ID": after}) as response:
            await response.aread()
            return self._refusal(response)

    def _refusal(self, response: httpx.Response) -> Refusal:
        assert "application/json" in response.headers["content-type"], response.headers
        error = response.json()["error"]
        details = {d["@type"].rpartition(".")[2]: d for d in self.details(error)}
        violations = details.get("BadRequest", {"fieldViolations": []})["fieldViolations"]
        return Refusal(
            response.status_code,
            error["code"],
            details["ErrorInfo"]["reason"],
            error["message"],
            {violation["field"]: violation["description"] for violation in violations},
            response.headers,
        )

    @asynccontextmanager
    async def stream(
        self, operation: str, params: Json, after: str = "", headers: Json | None = None
    ) -> AsyncIterator[Stream]:
        """Open a stream."""
        sent = {"Last-Event-ID": after} if after else {}
        async with self.open(operation, params, sent | (headers or {})) as response:
            yield Stream(response, self)

    @abstractmethod
    async def send(self, operation: str, params: Any) -> httpx.Response:  # noqa: ANN401 - bad input
        """Send a call."""

    @abstractmethod
    def open(
        self, operation: str, params: Json, headers: Json
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """Open a stream."""

    @abstractmethod
    def result(self, body: Json) -> Json:
        """Return the result in a body or frame."""

    @abstractmethod
    def details(self, error: Json) -> list[Json]:
        """Return an error's typed details."""


class Rpc(Talk):
    """JSON-RPC."""

    async def send(self, operation: str, params: Any) -> httpx.Response:  # noqa: ANN401 - bad input
        return await self.http.post(self.base or "/", json=self.request(operation, params))

    def open(
        self, operation: str, params: Json, headers: Json
    ) -> AbstractAsyncContextManager[httpx.Response]:
        request = self.request(operation, params)
        return self.http.stream("POST", self.base or "/", json=request, headers=headers)

    def result(self, body: Json) -> Json:
        assert body["id"] == "call-1"
        result: Json = body["result"]
        return result

    def details(self, error: Json) -> list[Json]:
        details: list[Json] = error["data"]
        return details

    @staticmethod
    def request(operation: str, params: object) -> Json:
        """Return what is sent for a call."""
        return {"jsonrpc": "2.0", "id": "call-1", "method": operation, "params": params}


class Rest(Talk):
    """HTTP+JSON."""

    async def send(self, operation: str, params: Any) -> httpx.Response:  # noqa: ANN401 - bad input
        method, path, body = self._request(operation, params)
        return await self.http.request(method, path, json=body)

    def open(
        self, operation: str, params: Json, headers: Json
    ) -> AbstractAsyncContextManager[httpx.Response]:
        method, path, body = self._request(operation, params)
        return self.http.stream(method, path, json=body, headers=headers)

    def result(self, body: Json) -> Json:
        return body

    def details(self, error: Json) -> list[Json]:
        details: list[Json] = error["details"]
        return details

    def _request(self, operation: str, params: Any) -> tuple[str, str, Any]:  # noqa: ANN401 - bad input
        if operation in _ACTS:
            path = self.base + _ACTS[operation]
            return "POST", path.format_map(params) if "{" in path else path, params
        if operation in _DELETIONS:
            return "DELETE", self.base + _DELETIONS[operation].format_map(params), None
        query = {
            name: value for name, value in params.items() if f"{{{name}}}" not in _VIEWS[operation]
        }
        path = self.base + _VIEWS[operation].format_map(params)
        return "GET", path + (f"?{urlencode(query)}" if query else ""), None
