"""Requests drawn at random around what A2A's protobuf says, right, nearly right and wrong."""

import json
from dataclasses import dataclass
from typing import Any

from a2a.types import a2a_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

from tests.integration.gateway.talking import Json

_DEEPEST = 4
_SERVICE = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
_REQUESTS = {method.name: method.input_type for method in _SERVICE.methods}
_OLD = ["message/send", "message/stream", "tasks/get", "tasks/cancel", "tasks/resubscribe"]
_AGENTS = ["assistant", "ask", "bare", "terse", "demanding", "choosy", "nobody", "%00", "é"]

TASK = "0-" + "a" * 32
"""Stands for the id of a task that there is."""

_WORDS = st.sampled_from(
    ["", "x", TASK, "0-" + "b" * 32, "..", "\x00", "é\U0001f600", "c-1", "ROLE_USER", "1" * 40]
)
_ANY: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _WORDS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=5,
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """One request."""

    method: str
    path: str
    query: Json
    headers: dict[str, str]
    body: bytes
    is_rpc: bool = False


def _one(of: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - by kind
    if of.message_type is not None:
        name = of.message_type.full_name
        if name.startswith("google.protobuf.") or depth > _DEEPEST:
            return _ANY
        return _message(of.message_type, depth + 1)
    if of.enum_type is not None:
        return st.sampled_from([*of.enum_type.values_by_name, "NONE", 1, 99])
    if of.type == FieldDescriptor.TYPE_BOOL:
        return st.sampled_from([True, False, "true", 1])
    if of.type == FieldDescriptor.TYPE_STRING:
        return _WORDS | st.text(max_size=20)
    if of.type == FieldDescriptor.TYPE_BYTES:
        return st.sampled_from(["", "YWJj", "?"])
    return st.integers(-2, 200) | st.sampled_from(["5", 2**40, 1.5])


def _value(of: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    one = _one(of, depth)
    usual = st.lists(one, max_size=2) if of.is_repeated else one
    return st.one_of(usual, usual, usual, _ANY)


def _message(of: Descriptor, depth: int = 0) -> st.SearchStrategy[Json]:
    fields = {one.json_name: _later(one, depth) for one in of.fields}
    return st.fixed_dictionaries({}, optional=fields)


def _later(of: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: _value(of, depth))


def _sound(said: Any) -> Json:  # noqa: ANN401 - any JSON
    return {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": str(said)}]}}


_SOUND = st.builds(_sound, _WORDS)
_SHORT = st.builds(
    lambda key, name, said: {key: {name: said}},
    st.sampled_from(["message", "request"]),
    st.sampled_from(["content", "parts"]),
    st.lists(_ANY | st.just({"text": "Hello"}), max_size=2),
)


def _params(operation: str) -> st.SearchStrategy[Any]:
    by_schema = _message(_REQUESTS[operation])
    if "Message" not in operation:
        return by_schema | st.builds(lambda more: {"id": TASK, **more}, by_schema) | _ANY
    mixed = st.builds(lambda sound, more: {**more, **sound}, _SOUND, by_schema)
    return st.one_of(by_schema, _SOUND, mixed, _SHORT, _ANY)


_HEADERS: st.SearchStrategy[dict[str, str]] = st.fixed_dictionaries(
    {},
    optional={
        "A2A-Version": st.sampled_from(["1.0", "0.3", "", "9.9", "x", "1.0.1"]),
        "Content-Type": st.sampled_from(
            ["application/json", "application/a2a+json", "application/x-www-form-urlencoded", "x"]
        ),
        "Accept": st.sampled_from(["*/*", "application/a2a+json", "application/x-agui-events"]),
        "Last-Event-ID": st.sampled_from(["x", "abcd1234:1", f"{TASK}/abcd1234:1", "/", "a:0.0"]),
        "Idempotency-Key": st.sampled_from(["k", "", "k" * 300]),
        "A2A-Extensions": st.sampled_from(["urn:test:required", ",", "x" * 500]),
    },
)
_QUERY: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {},
    optional={
        "format": st.sampled_from(["hector", "agui", "x"]),
        "done": st.sampled_from(["1", "0"]),
        "message": _WORDS | st.sampled_from(["{", '{"parts":[]}', '{"content":[{"text":"a"}]}']),
        "after": st.sampled_from(["x", "abcd1234:1"]),
        "historyLength": st.sampled_from(["1", "-1", "x", "9" * 30]),
        "pageSize": st.sampled_from(["1", "0", "x"]),
        "pageToken": _WORDS,
        "status": st.sampled_from(["TASK_STATE_WORKING", "x"]),
        "statusTimestampAfter": st.sampled_from(["2026-01-31T12:00:00Z", "x"]),
        "A2A-Version": st.sampled_from(["1.0", "0.3", "x"]),
    },
)
_PATHS = {
    "/message:send": "SendMessage",
    "/message:stream": "SendStreamingMessage",
    "/stream": "SendStreamingMessage",
    "/v1/message:send": "SendMessage",
    "/tasks": "ListTasks",
    "/tasks/{task}": "GetTask",
    "/v1/tasks/{task}": "GetTask",
    "/tasks/{task}:cancel": "CancelTask",
    "/tasks/{task}:subscribe": "SubscribeToTask",
    "/tasks/{task}/pushNotificationConfigs": "CreateTaskPushNotificationConfig",
    "/tasks/{task}/pushNotificationConfigs/{task}": "GetTaskPushNotificationConfig",
    "/extendedAgentCard": "GetExtendedAgentCard",
    "/.well-known/agent-card.json": "GetExtendedAgentCard",
    "/{task}": "GetTask",
}
_BASES = ["", *(f"/v1/agents/{agent}" for agent in _AGENTS)]
_TASKS = st.sampled_from([TASK, TASK, "x", "0-" + "b" * 32, "%2F", "%00", ".."])


@st.composite
def rest_requests(draw: st.DrawFn) -> Drawn:
    """Draw a request to the REST binding."""
    path = draw(st.sampled_from(list(_PATHS)))
    body = draw(_params(_PATHS[path]).map(_as_json) | st.binary(max_size=20))
    method = draw(st.sampled_from(["GET", "POST", "POST", "DELETE", "PUT"]))
    where = draw(st.sampled_from(_BASES)) + path.replace("{task}", draw(_TASKS))
    sent = body if method == "POST" else b""
    return Drawn(method, where, draw(_QUERY), draw(_HEADERS), sent)


@st.composite
def rpc_requests(draw: st.DrawFn) -> Drawn:
    """Draw a request to the JSON-RPC binding."""
    operation = draw(st.sampled_from(list(_REQUESTS)))
    call = {
        "jsonrpc": "2.0",
        "id": draw(st.sampled_from([1, "a", None, 1.5])),
        "method": draw(st.sampled_from([operation, operation, *_OLD, "card/get", ""])),
        "params": draw(_params(operation)),
    }
    if draw(st.booleans()) and isinstance(call["params"], dict):
        call["params"] = {"name": draw(st.sampled_from(_AGENTS)), **call["params"]}
    bent = st.builds(lambda more: call | more, st.dictionaries(st.sampled_from([*call]), _ANY))
    body = draw(st.one_of(st.just(call), st.just(call), bent).map(_as_json) | st.binary(max_size=9))
    path = draw(st.sampled_from([*(base or "/" for base in _BASES), "/rpc"]))
    query = {k: v for k, v in draw(_QUERY).items() if k in ("format", "done", "A2A-Version")}
    return Drawn("POST", path, query, draw(_HEADERS), body, is_rpc=True)


def _as_json(value: object) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")
