"""Random requests around A2A's protobuf schema: valid, nearly valid and invalid."""

import json
from dataclasses import dataclass
from typing import Any

from a2a.types import a2a_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

from tests.support.clients.bindings import Json

_DEEPEST = 4
_SERVICE = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
_REQUESTS = {method.name: method.input_type for method in _SERVICE.methods}
_OLD = [
    "message/send", "message/stream", "tasks/get", "tasks/cancel", "tasks/resubscribe",
    "tasks/pushNotificationConfig/set", "tasks/pushNotificationConfig/get",
    "tasks/pushNotificationConfig/list", "tasks/pushNotificationConfig/delete",
    "agent/getAuthenticatedExtendedCard",
]  # fmt: skip
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
    is_agui: bool = False

    @property
    def wants_dialect(self) -> bool:
        """Whether its stream is to be in Hector's AG-UI dialect."""
        return self.query.get("format") == "agui" or "x-agui" in self.headers.get("Accept", "")

    @property
    def may_wait(self) -> bool:
        """Whether its stream may go on where a task waits for its user."""
        named = "subscribe" in self.path or b"ubscribe" in self.body
        return named or "Last-Event-ID" in self.headers or "after" in self.query


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


def _sound(output: Any) -> Json:  # noqa: ANN401 - any JSON
    return {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": str(output)}]}}


_SOUND = st.builds(_sound, _WORDS)
_SHORT = st.builds(
    lambda key, name, said: {key: {name: said}},
    st.sampled_from(["message", "request"]),
    st.sampled_from(["content", "parts"]),
    st.lists(_ANY | st.just({"text": "Hello"}), max_size=2),
)


_HOOK = st.fixed_dictionaries(
    {"url": st.sampled_from(["https://hooks.example/", "http://127.0.0.1:9", "ftp://x", "x", ""])},
    optional={"id": _WORDS, "token": _WORDS, "authentication": _ANY},
)
_OLD_PARTS = st.lists(
    st.sampled_from(
        [
            {"kind": "text", "text": "Hello"},
            {"kind": "data", "data": {"a": 0}},
            {"kind": "file", "file": {"bytes": "YWJj"}},
            {"kind": "x"},
        ]
    ),
    max_size=2,
)
_OLD_SENT = st.builds(
    lambda said, more: {"message": {"messageId": "m", "role": "user", "parts": said}, **more},
    _OLD_PARTS,
    st.fixed_dictionaries(
        {},
        optional={
            "configuration": st.builds(lambda hook: {"pushNotificationConfig": hook}, _HOOK | _ANY),
            "metadata": _ANY,
        },
    ),
)
_OLD_CONFIG = st.builds(
    lambda task, hook: {"taskId": task, "id": task, "pushNotificationConfig": hook},
    st.sampled_from([TASK, TASK, "x"]) | _WORDS,
    _HOOK,
)
_OLD_CREATED = st.builds(
    lambda hook, more: {"config": {"name": "tasks/x", "pushNotificationConfig": hook}, **more},
    _HOOK | _ANY,
    st.fixed_dictionaries({}, optional={"parent": _WORDS, "config_id": _WORDS, "configId": _ANY}),
)


def bodies(of: Descriptor) -> st.SearchStrategy[Json]:
    """Return what draws around the message of a protobuf, as its JSON."""
    return _message(of)


def sound(of: Descriptor) -> st.SearchStrategy[Json]:
    """Return what draws requests of 1.0 and 0.3 that have all they need, and more."""
    old = st.builds(
        lambda name: {"request": {"messageId": "m", "content": [{"text": name}]}}, _WORDS
    )
    names = st.sampled_from([f"tasks/{TASK}", "tasks/x", f"tasks/{TASK}/pushNotificationConfigs/c"])
    ids = st.builds(lambda name: {"id": TASK, "taskId": TASK, "name": name, "parent": name}, names)
    return st.builds(lambda one, more: {**more, **one}, st.one_of(_SOUND, old, ids), _message(of))


def _params(operation: str) -> st.SearchStrategy[Any]:
    by_schema = _message(_REQUESTS[operation])
    if "Push" in operation:
        ids = st.sampled_from(["x", "c-1", TASK])
        own = st.builds(lambda hook, name: {"taskId": TASK, "id": name, **hook}, _HOOK, ids)
        return st.one_of(by_schema, own, _OLD_CONFIG, _OLD_CREATED, _ANY)
    if "Message" not in operation:
        return by_schema | st.builds(lambda more: {"id": TASK, **more}, by_schema) | _ANY
    mixed = st.builds(lambda sound, more: {**more, **sound}, _SOUND, by_schema)
    return st.one_of(by_schema, _SOUND, mixed, _SHORT, _OLD_SENT, _ANY)


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
    "/v1/message:stream": "SendStreamingMessage",
    "/v1/tasks/{task}": "GetTask",
    "/v1/tasks/{task}:subscribe": "SubscribeToTask",
    "/v1/tasks/{task}/pushNotificationConfigs": "CreateTaskPushNotificationConfig",
    "/v1/tasks/{task}/pushNotificationConfigs/c-1": "GetTaskPushNotificationConfig",
    "/v1/card": "GetExtendedAgentCard",
    "/tasks/{task}:cancel": "CancelTask",
    "/tasks/{task}:subscribe": "SubscribeToTask",
    "/tasks/{task}/pushNotificationConfigs": "CreateTaskPushNotificationConfig",
    "/tasks/{task}/pushNotificationConfigs/{task}": "GetTaskPushNotificationConfig",
    "/tasks/{task}/pushNotificationConfigs/c-1": "DeleteTaskPushNotificationConfig",
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


_SAID = st.fixed_dictionaries(
    {"id": _WORDS, "role": st.sampled_from(["user", "assistant", "tool", "activity", "x"])},
    optional={
        "content": st.just("Hello") | st.just([{"type": "text", "text": "Hello"}]) | _ANY,
        "toolCallId": _WORDS,
        "toolCalls": _ANY,
        "activityType": _WORDS,
    },
)
_RUNS = st.fixed_dictionaries(
    {
        "threadId": _WORDS | st.text(min_size=1, max_size=5),
        "runId": _WORDS | st.text(min_size=1, max_size=5),
        "messages": st.lists(_SAID, max_size=2)
        | st.just([{"id": "m", "role": "user", "content": "Hello"}])
        | _ANY,
    },
    optional={
        "state": _ANY,
        "tools": st.just([{"name": "t", "description": "", "parameters": {}}]) | _ANY,
        "context": st.just([{"description": "d", "value": "v"}]) | _ANY,
        "forwardedProps": st.just({"headrace": {"raw": True, "thinking": True}}) | _ANY,
        "resume": st.just([{"interruptId": "i", "status": "resolved", "payload": 1}]) | _ANY,
        "protocolVersion": st.sampled_from(["1.0", "0.0.53", "9", ""]) | _ANY,
        "parentRunId": _WORDS,
    },
)


@st.composite
def agui_requests(draw: st.DrawFn) -> Drawn:
    """Draw a request to AG-UI's endpoints."""
    path = draw(st.sampled_from(["", "", "", "/attach", "/stop", "/capabilities", "/threads/x"]))
    agent = draw(st.sampled_from([*_AGENTS, "assistant", "ask"]))
    body = draw((_RUNS | _RUNS | _ANY).map(_as_json) | st.binary(max_size=9))
    method = draw(st.sampled_from(["POST", "POST", "POST", "GET"]))
    accepted = ["text/event-stream", "*/*", "application/vnd.ag-ui.event+proto", "x"]
    headers = draw(_HEADERS) | {"Accept": draw(st.sampled_from(accepted))}
    where = f"/v1/agents/{agent}/ag-ui{path}"
    sent = body if method == "POST" else b""
    return Drawn(method, where, draw(_QUERY), headers, sent, is_agui=True)


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
