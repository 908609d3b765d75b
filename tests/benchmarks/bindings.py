"""How the benchmark asks for runs and tasks: the bytes of a request, the events of an answer."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

type Json = dict[str, Any]

_ids = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Binding:
    """One of A2A's bindings over HTTP."""

    name: str
    stream_path: str
    """Behind the agent's base: where a streamed run is asked for."""
    send_path: str
    """Where a run is asked for whose result is awaited."""
    subscribe_path: str
    """Where a task is subscribed to; ``{task}`` stands for its id."""
    task_path: str
    """Where a task is read by GET; empty: by a method of JSON-RPC."""
    body: Callable[[Json, str], Json]
    """Makes the body of a request for a message and a JSON-RPC method."""
    result: Callable[[Json], Json]
    """Takes the result out of the body, or frame, of an answer."""

    def streamed(self, host: str, base: str, text: str) -> bytes:
        """Return a request for a streamed run of `text`."""
        body = self.body(message(text), "SendStreamingMessage")
        return request(host, base + self.stream_path, body, "text/event-stream")

    def awaited(self, host: str, base: str, text: str) -> bytes:
        """Return a request for a run of `text` that is answered when the run has ended."""
        body = self.body(message(text), "SendMessage")
        return request(host, base + self.send_path, body, "application/json")

    def replied(self, host: str, base: str, text: str, task: str) -> bytes:
        """Return a request for a run of `text`, a reply to `task`, that is answered at its end."""
        body = self.body(message(text, taskId=task), "SendMessage")
        return request(host, base + self.send_path, body, "application/json")

    def read(self, host: str, base: str, task: str) -> bytes:
        """Return a request for `task` as it is."""
        if self.task_path:
            return get(host, base + self.task_path.format(task=task))
        return request(host, base, self.body({"id": task}, "GetTask"))

    def subscribed(self, host: str, base: str, task: str) -> bytes:
        """Return a request for the stream of `task`."""
        path = base + self.subscribe_path.format(task=task)
        body = self.body({"id": task}, "SubscribeToTask")
        return request(host, path, body, "text/event-stream")


def message(text: str, **fields: str) -> Json:
    """Return the parameters of a message that says `text`, with more fields of the message."""
    message_id = f"benchmark-{next(_ids)}"
    said = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"message": said | fields}


def _rpc(params: Json, method: str) -> Json:
    return {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params}


def _rpc_result(answer: Json) -> Json:
    if "result" not in answer:
        raise ValueError(f"no result: {answer}")
    result: Json = answer["result"]
    return result


def request(host: str, path: str, body: Json, accept: str = "application/json") -> bytes:
    """Return a POST of `body`, head and all."""
    content = orjson.dumps(body)
    head = (
        f"POST {path or '/'} HTTP/1.1\r\nHost: {host}\r\nA2A-Version: 1.0\r\nAccept: {accept}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def get(host: str, path: str, headers: Mapping[str, str] | None = None) -> bytes:
    """Return a GET, with more `headers`."""
    fields = {"Host": host, "A2A-Version": "1.0"} | dict(headers or {})
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode()


JSON_RPC = Binding("jsonrpc", "", "", "", "", _rpc, _rpc_result)
REST = Binding(
    "rest",
    "/message:stream",
    "/message:send",
    "/tasks/{task}:subscribe",
    "/tasks/{task}",
    lambda params, _: params,
    lambda answer: answer,
)
BINDINGS = {binding.name: binding for binding in (JSON_RPC, REST)}
