"""The AI SDK's door, and its client: the chats of `@ai-sdk/react` in one Node process."""

import json
import subprocess
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.support import javascript
from tests.support.doors.door import Hostile, Refusal
from tests.support.waiting import eventually

type Json = dict[str, Any]

FOLDER = Path(__file__).resolve().parents[2] / "e2e" / "doors"
_LIMIT = 120.0


class BrokenOff(Exception):
    """The client's error."""

    def __init__(self, error: Json) -> None:
        """Hold what the client says."""
        super().__init__(error["message"])
        self.refusal = Refusal(error["kind"], error["message"])


@dataclass
class Chat:
    """One chat of the process."""

    client: "Client"
    name: str
    agent: str
    shown: Json = field(default_factory=lambda: {"messages": [], "done": 0, "status": "ready"})
    """What the chat's last line says."""
    ordered: int = 0
    parts: list[Json] = field(default_factory=list)
    """The parts of the last message, if it is the agent's."""
    text: str = ""
    task: str = ""

    def take(self, shown: Json) -> None:
        """Take note of a line."""
        self.shown, last = shown, (shown["messages"] or [{}])[-1]
        self.parts = last["parts"] if last.get("role") == "assistant" else []
        self.text = "".join(one["text"] for one in self.parts if one["type"] == "text")
        self.task = str((last.get("metadata") or {}).get("taskId", ""))

    def order(self, what: str, **about: object) -> None:
        """Have the client do something."""
        self.ordered += 1
        self.client.write({"chat": self.name, "do": what, **about})

    async def until(self, text: str) -> None:
        """Wait for `text` in the answer."""

        async def holds() -> bool:
            return text in self.text

        await eventually(holds, f"{text!r} is shown", timeout=_LIMIT)

    async def rest(self) -> None:
        """Wait until all orders are done.

        Raises:
            BrokenOff: the client has an error.
        """

        async def is_done() -> bool:
            return self.shown["done"] == self.ordered and self.shown["status"] in {"ready", "error"}

        await eventually(is_done, f"{self.shown} is done", timeout=_LIMIT)
        if self.shown.get("error"):
            raise BrokenOff(self.shown["error"])

    async def resume(self, url: str) -> None:
        """Resume at another gateway."""
        self.order("resume", url=url)

    async def stop(self, url: str) -> None:
        """Request the stop at another gateway."""
        self.order("stop", url=url)


class Client:
    """The Node process; it ends with the tests."""

    def __init__(self) -> None:
        """Start it; skips the test where there is no Node."""
        javascript.install(FOLDER)
        pipe = subprocess.PIPE
        command = [javascript.program("node"), "ai_sdk.mjs"]
        self._process = subprocess.Popen(command, cwd=FOLDER, stdin=pipe, stdout=pipe)
        self._chats = dict[str, Chat]()
        threading.Thread(target=self._read, daemon=True).start()

    def open(self, url: str, agent: str, token: str = "", chat: str = "", **more: object) -> Chat:
        """Open a chat with an agent at a gateway: a new one, or `chat`."""
        name = chat or uuid4().hex
        opened = self._chats[name] = Chat(self, name, agent)
        order = {"url": url, "agent": agent, "token": token, "id": name, **more}
        self.write({"chat": name, "do": "open", **order})
        return opened

    def write(self, order: Json) -> None:
        """Send an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            shown = json.loads(line)
            self._chats[shown.pop("chat")].take(shown)


@cache
def client() -> Client:
    """Return the process that all tests share."""
    return Client()


def _user(content: list[Json]) -> Json:
    return {"id": "chat", "messages": [{"id": "m", "role": "user", "parts": content}]}


def _answered(part: Json) -> Json:
    return {"id": "chat", "messages": [{"role": "assistant", "parts": [part]}]}


def _hostile(body: object, status: int, says: str) -> Hostile:
    return Hostile("/v1/agents/echo/ai-sdk", json.dumps(body).encode(), status, says)


class AiSdk:
    """See `Door`."""

    name = "ai-sdk"
    can_resume = True
    hostile: Sequence[Hostile] = (
        _hostile([], 400, "must be a JSON object"),
        _hostile({"messages": []}, 400, "id: must be a string"),
        _hostile({"id": "c", "messages": {}}, 400, "messages: must be a list"),
        _hostile({"id": "x" * 5000, "messages": [{}]}, 400, "id: must not be longer"),
        _hostile(_user([{"type": "text", "text": 7}]), 400, "messages.0.parts.0.text"),
        _hostile(_user([{"type": "file", "mediaType": "a/b", "url": "file:///x"}]), 400, "url"),
        _hostile(
            _user([{"type": "file", "mediaType": "a/b", "url": "data:a/b;base64,A"}]), 400, "base64"
        ),
        _hostile(
            _user([{"type": "file", "mediaType": "a/b", "url": "headrace-file:a/tasks/b/files/c"}]),
            400,
            "reserved",
        ),
        _hostile({**_user([]), "tools": [1]}, 400, "tools"),
        _hostile({**_user([]), "trigger": [1]}, 400, "trigger: must be"),
        _hostile({"id": "c", "messages": [{"role": [], "parts": []}]}, 400, "messages.0.role"),
        _hostile(_answered({"toolCallId": "x", "state": [1]}), 409, "none waits"),
        _hostile({"id": "c", "messages": [{"role": "assistant", "parts": []}]}, 409, "none waits"),
    )

    def __init__(self) -> None:
        """Know no chats."""
        self._chats = dict[str, str]()

    @asynccontextmanager
    async def begin(self, url: str, agent: str, text: str, token: str = "") -> AsyncIterator[Chat]:
        """See `Door.begin`."""
        chat = client().open(url, agent, token)
        chat.order("send", message={"text": text})
        yield chat
        self._chats[chat.task] = chat.name

    async def converse(self, url: str, agent: str, texts: Sequence[str]) -> list[str]:
        """See `Door.converse`."""
        chat, said = client().open(url, agent), list[str]()
        for text in texts:
            chat.order("send", message={"text": text})
            await chat.rest()
            said.append(chat.text)
        return said

    async def send_file(self, url: str, agent: str, content: bytes) -> str:
        """See `Door.send_file`."""
        chat, encoded = client().open(url, agent), b64encode(content).decode()
        kind = "application/octet-stream"
        file = {"type": "file", "mediaType": kind, "url": f"data:{kind};base64,{encoded}"}
        chat.order("send", message={"files": [file]})
        await chat.rest()
        return chat.text

    async def refusal(self, url: str, agent: str, token: str = "") -> Refusal:
        """See `Door.refusal`."""
        chat = client().open(url, agent, token)
        chat.order("send", message={"text": "hello"})
        try:
            await chat.rest()
        except BrokenOff as error:
            return error.refusal
        raise AssertionError(f"not refused: {chat.shown}")

    async def can_read(self, url: str, task: str, agent: str, token: str) -> bool:
        """See `Door.can_read`: the chat of that task, by its id alone."""
        chat = client().open(url, agent, token, self._chats[task])
        chat.order("resume", url=url)
        await chat.rest()
        return chat.task == task


@asynccontextmanager
async def _watched(url: str, agent: str, task: str) -> AsyncIterator[Chat]:
    async with httpx.AsyncClient() as http:
        found = await http.get(f"{url}/v1/agents/{agent}/tasks/{task}")
    chat = client().open(url, agent, id=found.json()["contextId"])
    chat.order("resume", url=url)
    yield chat


def watch(url: str, agent: str, task: str) -> list[AbstractAsyncContextManager[Chat]]:
    """Follow a task that another door began, in the chat that is its context."""
    return [_watched(url, agent, task)]
