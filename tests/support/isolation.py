"""Requests for each operation of each protocol on things of another owner, or of nobody.

What an answer says is kept with the ids that were asked for taken out, so that two answers are the
same if they tell nothing apart.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import grpc.aio
import httpx
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from headrace.model.errors import StateUnavailable
from headrace.model.subjects import encode_token
from headrace.model.task import TASK_HEADER, mint_task_id
from tests.support.clients.bindings import Rest, Rpc, Talk
from tests.support.clients.grpc_binding import Grpc
from tests.support.clients.websocket import connect
from tests.support.credentials import ANN
from tests.support.plain_a2a import message

type Json = dict[str, Any]

CONFIG = "c"
"""Id of the push configuration that each task has."""

HOOK = "https://hooks.example/"
IN_CONTEXT = "SendMessage into a context"
_STREAMS = ("SendStreamingMessage", "SubscribeToTask", "SubscribeToContext")
_RUNS_IN = "filer"
_TIMEOUT = 60.0
_OWN_TEXT = "1"
"""What callers say in contexts of their own, and nobody in the things."""
_PAGE = 10
_UNAUTHENTICATED = 401
_PASSED_ON = ("authorization", "a2a-version")
_TELLING_NOTHING = frozenset({"date", "content-length"})


@dataclass(frozen=True, slots=True)
class Thing:
    """A task with its thread, its push configuration, and a file, as anybody might name them."""

    agent: str
    task: str
    context: str
    cursor: str
    file: str
    owner: str
    """As in the credentials. A schedule and a trigger have the context's name."""
    user: str
    """The owner whose usage counts its run."""
    letter: int
    """The number of a dead letter of its trigger."""
    schedule_letter: int
    """The number of one of its schedule."""
    more: Callable[[], Awaitable[object]]
    """Begin another task in the context, as the owner, and wait for its end."""

    def as_nobodys(self) -> "Thing":
        """Return one that does not exist."""
        return replace(
            self,
            task=mint_task_id(0),
            context=f"nobodys-{mint_task_id(0)}",
            user="nobody",
            letter=10**15,
            schedule_letter=10**15,
            more=_no_more,
        )


async def _no_more() -> None:
    """Begin nothing: nobody has a thing that does not exist."""


_TOO_LATE, _TRIES = StateUnavailable().public, 5


@dataclass(frozen=True, slots=True)
class MaskedResponse:
    """What came back, but for the ids that were asked for."""

    status: int
    headers: frozenset[tuple[str, str]]
    text: str

    @classmethod
    def of(
        cls, response: httpx.Response, thing: Thing, text: str | None = None
    ) -> "MaskedResponse":
        """Keep `text`, or all that the response says."""
        output = response.text if text is None else text
        for value, name in (
            (thing.task, "TASK"),
            (encode_token(thing.context), "CONTEXT"),
            (thing.context, "CONTEXT"),
            (f"dead letter {thing.letter} ", "LETTER"),
            (f'"id":{thing.letter},', "LETTER"),
            (f"dead letter {thing.schedule_letter} ", "LETTER"),
        ):
            output = output.replace(value, name)
        headers = {(k, v) for k, v in response.headers.items() if k not in _TELLING_NOTHING}
        if (began := response.headers.get(TASK_HEADER)) is not None:
            headers.remove((TASK_HEADER.lower(), began))
            headers.add((TASK_HEADER, "TASK" if began == thing.task else "a new one"))
        return cls(response.status_code, frozenset(headers), output)

    @property
    def is_too_late(self) -> bool:
        """Whether task state had no time for it: nothing about the task came back."""
        return _TOO_LATE in self.text

    @property
    def is_unauthenticated(self) -> bool:
        return self.status == _UNAUTHENTICATED

    @property
    def is_ok(self) -> bool:
        return self.status == httpx.codes.OK

    @property
    def is_permitted(self) -> bool:
        return self.status not in {_UNAUTHENTICATED, httpx.codes.FORBIDDEN}


class Binding(ABC):
    """One way to ask."""

    operations: Sequence[str]

    async def answered(self, operation: str, thing: Thing) -> list[MaskedResponse]:
        """Ask for `thing` until task state answers."""
        for _ in range(_TRIES):
            responses = await self.ask(operation, thing)
            if not any(one.is_too_late for one in responses):
                return responses
        raise AssertionError(f"{operation}: task state did not answer {_TRIES} times")

    @abstractmethod
    async def ask(self, operation: str, thing: Thing) -> list[MaskedResponse]:
        """Ask in every way there is for `thing`."""


class A2A(Binding):
    """A2A 1.0 over one of its bindings."""

    operations: Sequence[str] = (
        "SendMessage",
        IN_CONTEXT,
        "SendStreamingMessage",
        "GetTask",
        "ListTasks",
        "CancelTask",
        "DeleteTask",
        "ForkTask",
        "SubscribeToTask",
        "SubscribeToContext",
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
        "GetExtendedAgentCard",
    )

    def __init__(self, talk: Talk) -> None:
        """Ask by `talk`."""
        self._talk = talk

    async def ask(self, operation: str, thing: Thing) -> list[MaskedResponse]:
        if operation == IN_CONTEXT:
            return [await self._begun(thing)]
        answers = []
        for params, after in _params(operation, thing):
            # The other asks of lists are not for the thing: what counts is whether it is there.
            response = await self._response(_agent(operation, thing), operation, params, after)
            is_narrow = operation != "ListTasks" or "contextId" in params
            text = None if is_narrow or response.is_error else str(thing.task in response.text)
            answers.append(MaskedResponse.of(response, thing, text))
        return answers

    async def _begun(self, thing: Thing) -> MaskedResponse:
        """Begin a task in the context; which one it is, the context's owner sees."""
        params = {
            "message": message("1", contextId=thing.context),
            "configuration": {"returnImmediately": True},
        }
        sent = await self._response(_RUNS_IN, "SendMessage", params, "")
        return MaskedResponse.of(sent, thing, sent.text if sent.is_error else "")

    async def _response(
        self, agent: str, operation: str, params: Json, after: str
    ) -> httpx.Response:
        talk = self._talk.to(agent)
        if operation not in _STREAMS:
            return await talk.send(operation, params)
        return await _begun(talk.open(operation, params, {"Last-Event-ID": after}))


class OverGrpc(A2A):
    """A2A over gRPC, which has no operation to delete tasks, and none to follow contexts."""

    operations = tuple(
        name for name in A2A.operations if name not in {"DeleteTask", "SubscribeToContext"}
    )


class Socket(Rpc):
    """JSON-RPC over WebSockets, one for each call; a stream is its first event."""

    async def send(self, operation: str, params: Any) -> httpx.Response:  # noqa: ANN401 - any JSON
        return await _first(self.http, f"{self.base}/stream", self.request(operation, params))

    @asynccontextmanager
    async def open(
        self, operation: str, params: Json, headers: Json
    ) -> AsyncIterator[httpx.Response]:
        after = {"after": headers["Last-Event-ID"]} if headers["Last-Event-ID"] else {}
        frame = self.request(operation, params) | after
        yield await _first(self.http, f"{self.base}/stream", frame)


async def _first(http: httpx.AsyncClient, path: str, frame: Json) -> httpx.Response:
    """Return the first message of a WebSocket to which `frame` is sent."""
    url = str(http.base_url.copy_with(scheme="ws")).rstrip("/")
    headers = {k: v for k, v in http.headers.items() if k in _PASSED_ON}
    try:
        async with connect(f"{url}{path}", additional_headers=headers) as socket:
            await socket.send(json.dumps(frame))
            output = await asyncio.wait_for(socket.recv(), _TIMEOUT)
    except ConnectionClosed as closed:
        is_refused = closed.rcvd is not None and closed.rcvd.code == CloseCode.POLICY_VIOLATION
        return httpx.Response(_UNAUTHENTICATED if is_refused else 500, text=f"{closed.rcvd}")
    is_error = "error" in json.loads(output)
    return httpx.Response(400 if is_error else 200, text=str(output))


class A2Av03Binding(Binding):
    """A2A 0.3 over JSON-RPC."""

    _METHODS: Mapping[str, str] = {
        "SendMessage": "message/send",
        "SendStreamingMessage": "message/stream",
        "GetTask": "tasks/get",
        "CancelTask": "tasks/cancel",
        "SubscribeToTask": "tasks/resubscribe",
        "CreateTaskPushNotificationConfig": "tasks/pushNotificationConfig/set",
        "GetTaskPushNotificationConfig": "tasks/pushNotificationConfig/get",
        "ListTaskPushNotificationConfigs": "tasks/pushNotificationConfig/list",
        "DeleteTaskPushNotificationConfig": "tasks/pushNotificationConfig/delete",
        "GetExtendedAgentCard": "agent/getAuthenticatedExtendedCard",
    }
    operations = tuple(_METHODS)

    def __init__(self, http: httpx.AsyncClient) -> None:
        """Ask over `http`."""
        self._http = http

    async def ask(self, operation: str, thing: Thing) -> list[MaskedResponse]:
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": self._METHODS[operation],
            "params": _old_params(operation, thing),
        }
        headers = {"A2A-Version": "0.3"}
        url = f"/v1/agents/{_agent(operation, thing)}"
        response = await _begun(self._http.stream("POST", url, json=call, headers=headers))
        return [MaskedResponse.of(response, thing)]


SCHEDULE = {"agent": _RUNS_IN, "message": "1", "cron": "0 0 1 1 *"}
TRIGGER = {"agent": _RUNS_IN, "subject": f"{ANN.tenant}.orders"}
_PAST = {"from": "2025-12-31T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
_SCHEDULE, _TRIGGER = "/v1/schedules/{name}", "/v1/triggers/{name}"
_LETTERS, _VERSIONS = "/v1/dead-letters", "/v1/fleet/agents/{agent}"
_LOG = "/v1/agents/{agent}/tasks/{task}/log"
_FEEDBACK = "/v1/agents/{agent}/tasks/{task}/feedback"
_PROCESSES, _DEV_PROCESSES = "/v1/processes", "/v1/dev/processes"


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """A request of the fleet API for a thing."""

    method: str
    route: str
    """The gateway's route."""
    body: Callable[[Thing], Json] | None = None
    """Return the request's body; without it there is none."""
    told: Callable[[Thing, httpx.Response], object] | None = None
    """Return what counts of an answer that is no refusal; without it all of it does."""
    query: Callable[[Thing], Mapping[str, str]] = lambda _: {}

    def path(self, thing: Thing) -> str:
        """Return the path at which `thing` is found."""
        return self.route.format(
            agent=thing.agent,
            thread=thing.context,
            task=thing.task,
            name=thing.context,
            number=thing.schedule_letter if self.route.startswith(_SCHEDULE) else thing.letter,
            worker="worker-of-nobody",
            role="worker",
            index=63,
        )


def _is_listed(thing: Thing, answer: httpx.Response) -> bool:
    return thing.context in answer.text


def _has_task(thing: Thing, answer: httpx.Response) -> bool:
    return thing.task in answer.text


def _context(thing: Thing) -> Json:
    return {"contextId": thing.context}


def _has_thread(thing: Thing, answer: httpx.Response) -> bool:
    found = answer.json()["threads"]
    return any(one["id"] == thing.context and one["title"] != _OWN_TEXT for one in found)


def _is_thread(_: Thing, answer: httpx.Response) -> bool:
    return bool(answer.json()["title"] != _OWN_TEXT)


def _has_letter(thing: Thing, answer: httpx.Response) -> bool:
    return any(one["id"] == thing.letter for one in answer.json()["letters"])


def _is_used(thing: Thing, answer: httpx.Response) -> bool:
    found = answer.json()
    is_of_tenant = found["tenant"] == ANN.tenant
    return is_of_tenant and any(one["owner"] == thing.user and one["runs"] for one in found["rows"])


def _owner(thing: Thing) -> Json:
    return {"owner": thing.owner}


def _has_queues(_: Thing, answer: httpx.Response) -> bool:
    return "queues" in answer.json()


def _letter(thing: Thing) -> Json:
    return {"ids": [thing.letter]}


def _version(_: Thing) -> Json:
    return {"version": "none"}


def _no_feedback(_: Thing) -> Json:
    return {"rating": None}


def _no_rotation(_: Thing) -> Json:
    return {"atOnce": "invalid"}


def _log_level(_: Thing) -> Json:
    return {"level": "configured", "process": "none"}


def _nothing(*_: object) -> str:
    """Say nothing: of what a caller has of its own; what it changes of others', they see."""
    return ""


_THREAD = "/v1/threads/{thread}"

FLEET: Mapping[str, FleetRequest] = {
    "task log": FleetRequest("GET", _LOG),
    "task log: stream": FleetRequest("GET", _LOG),
    "feedback: get": FleetRequest("GET", _FEEDBACK),
    "feedback: give": FleetRequest("PUT", _FEEDBACK, _no_feedback),
    "tasks: watch": FleetRequest("GET", "/v1/agents/{agent}/tasks:watch"),
    "tasks of all agents: list": FleetRequest("GET", "/v1/tasks", None, _has_task, _context),
    "tasks of all agents: watch": FleetRequest("GET", "/v1/tasks:watch"),
    "fleet": FleetRequest("GET", "/v1/fleet", None, _has_queues),
    "threads: list": FleetRequest("GET", "/v1/threads", None, _has_thread, _owner),
    "thread: get": FleetRequest("GET", _THREAD, None, _is_thread, _owner),
    "thread: follow": FleetRequest("GET", f"{_THREAD}/events", query=_owner),
    "thread: change": FleetRequest("PATCH", _THREAD, lambda _: {"title": "Mine"}, _nothing),
    "usage": FleetRequest(
        "GET", "/v1/usage", None, _is_used, lambda thing: {"owner": thing.user, "by": "owner"}
    ),
    "agent versions: list": FleetRequest("GET", f"{_VERSIONS}/versions"),
    "agent versions: route": FleetRequest("POST", f"{_VERSIONS}:route", _version),
    "agent versions: roll back": FleetRequest("POST", f"{_VERSIONS}:rollback", lambda _: {}),
    "agent versions: retire": FleetRequest("POST", f"{_VERSIONS}:retire", _version),
    "worker: drain": FleetRequest("POST", "/v1/workers/{worker}:drain", lambda _: {}),
    "processes: list": FleetRequest("GET", _PROCESSES),
    "processes: log level": FleetRequest("POST", f"{_PROCESSES}:logLevel", _log_level),
    "signing key: rotate": FleetRequest("POST", "/v1/signing-keys:rotate", _no_rotation),
    "processes of headrace dev: list": FleetRequest("GET", _DEV_PROCESSES),
    "process of headrace dev: kill": FleetRequest(
        "POST", f"{_DEV_PROCESSES}/{{role}}/{{index}}:kill", lambda _: {}
    ),
    "webhook deliveries: list": FleetRequest(
        "GET", "/v1/webhook-deliveries", query=lambda thing: {"task": thing.task}
    ),
    "dead letters: list": FleetRequest(
        "GET", _LETTERS, None, _has_letter, lambda _: {"limit": "1000"}
    ),
    "dead letter: get": FleetRequest("GET", f"{_LETTERS}/{{number}}"),
    "dead letter: retry": FleetRequest("POST", f"{_LETTERS}:retry", _letter),
    "dead letter: drop": FleetRequest("POST", f"{_LETTERS}:drop", _letter),
    "schedules: list": FleetRequest("GET", "/v1/schedules", None, _is_listed, _owner),
    "schedule: get": FleetRequest("GET", _SCHEDULE, query=_owner),
    "schedule: dead letters": FleetRequest("GET", f"{_SCHEDULE}/dead-letters", query=_owner),
    "schedule: dead letter": FleetRequest("GET", f"{_SCHEDULE}/dead-letters/{{number}}"),
    "schedule: run now": FleetRequest("POST", f"{_SCHEDULE}:run", query=_owner),
    "schedule: back-fill": FleetRequest(
        "POST", f"{_SCHEDULE}:backfill", lambda _: _PAST, query=_owner
    ),
    "schedule: pause": FleetRequest("POST", f"{_SCHEDULE}:pause", query=_owner),
    "schedule: resume": FleetRequest("POST", f"{_SCHEDULE}:resume", query=_owner),
    "schedule: delete": FleetRequest("DELETE", _SCHEDULE, query=_owner),
    # Last: whom it does not reach has one of that name afterwards.
    "schedule: replace": FleetRequest(
        "PUT", _SCHEDULE, lambda _: {**SCHEDULE, "message": "2"}, _nothing, _owner
    ),
    "triggers: list": FleetRequest("GET", "/v1/triggers", None, _is_listed),
    "trigger: get": FleetRequest("GET", _TRIGGER, query=_owner),
    "trigger: dead letters": FleetRequest("GET", f"{_TRIGGER}/dead-letters", query=_owner),
    "trigger: dead letter": FleetRequest("GET", f"{_TRIGGER}/dead-letters/{{number}}"),
    "trigger: pause": FleetRequest("POST", f"{_TRIGGER}:pause", query=_owner),
    "trigger: resume": FleetRequest("POST", f"{_TRIGGER}:resume", query=_owner),
    "trigger: delete": FleetRequest("DELETE", _TRIGGER, query=_owner),
    "trigger: replace": FleetRequest("PUT", _TRIGGER, lambda _: TRIGGER, _nothing),
    # After all others, because they end the task.
    "thread: delete": FleetRequest("DELETE", _THREAD, None, _nothing),
    "task: fail": FleetRequest("POST", "/v1/agents/{agent}/tasks/{task}:fail", lambda _: {}),
}


class Pages(Binding):
    """What is no A2A: AG-UI, CopilotKit's routes, files, and the fleet API."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        """Ask over `http`."""
        self._http = http
        self._asks: Mapping[str, Callable[[Thing], Awaitable[MaskedResponse]]] = {
            "AG-UI: run": lambda thing: self._run(thing, self._agui(thing)),
            "AG-UI: attach": lambda t: self._stream(t, f"{self._agui(t)}/attach", _thread(t)),
            "AG-UI: connect": lambda t: self._stream(t, f"{self._agui(t)}/connect", _thread(t)),
            "AG-UI: connect and stay": lambda t: self._stream(
                t, f"{self._agui(t)}/connect?stay=1", _thread(t)
            ),
            "AG-UI: stop": lambda t: self._post(t, f"{self._agui(t)}/stop", _thread(t)),
            "AG-UI: thread": lambda t: self._get(t, f"{self._agui(t)}/threads/{t.context}"),
            "CopilotKit: run": lambda t: self._run(t, f"/copilotkit/agent/{t.agent}/run"),
            "CopilotKit: connect": lambda t: self._stream(
                t, f"/copilotkit/agent/{t.agent}/connect", _input(t)
            ),
            "CopilotKit: stop": lambda t: self._post(
                t, f"/copilotkit/agent/{t.agent}/stop/{t.context}", {}
            ),
            "file download": lambda t: self._get(
                t, f"/v1/agents/{t.agent}/tasks/{t.task}/files/{t.file}"
            ),
            "file: sign its URL": lambda t: self._post(
                t, f"/v1/agents/{t.agent}/tasks/{t.task}/files/{t.file}:sign", {}
            ),
            **{what: partial(self._fleet, request) for what, request in FLEET.items()},
            "task log: stream": self._log_stream,
            "tasks: watch": partial(self._watch, FLEET["tasks: watch"]),
            "tasks of all agents: watch": partial(self._watch, FLEET["tasks of all agents: watch"]),
            "thread: follow": self._followed,
            "thread: get": partial(self._of_own_thread, FLEET["thread: get"]),
            "thread: change": partial(self._of_own_thread, FLEET["thread: change"]),
            "thread: delete": partial(self._of_own_thread, FLEET["thread: delete"]),
        }
        self._other_asks: Mapping[str, Sequence[Callable[[Thing], Awaitable[MaskedResponse]]]] = {
            "AG-UI: attach": (self._attach_by_get, self._attach_over_websocket),
            "CopilotKit: connect": (self._connect_by_envelope,),
        }
        self.operations = tuple(self._asks)

    async def ask(self, operation: str, thing: Thing) -> list[MaskedResponse]:
        asks = (self._asks[operation], *self._other_asks.get(operation, ()))
        return [await one(thing) for one in asks]

    @staticmethod
    def _agui(thing: Thing) -> str:
        return f"/v1/agents/{thing.agent}/ag-ui"

    async def _get(self, thing: Thing, path: str) -> MaskedResponse:
        return MaskedResponse.of(await self._http.get(path), thing)

    async def _post(self, thing: Thing, path: str, body: Json) -> MaskedResponse:
        return MaskedResponse.of(await self._http.post(path, json=body), thing)

    async def _stream(self, thing: Thing, path: str, body: Json) -> MaskedResponse:
        return MaskedResponse.of(await _begun(self._http.stream("POST", path, json=body)), thing)

    async def _attach_by_get(self, thing: Thing) -> MaskedResponse:
        stream = self._http.stream("GET", f"{self._agui(thing)}/attach", params=_thread(thing))
        return MaskedResponse.of(await _begun(stream), thing)

    async def _attach_over_websocket(self, thing: Thing) -> MaskedResponse:
        frame = {"attach": _thread(thing)}
        return MaskedResponse.of(await _first(self._http, f"{self._agui(thing)}/ws", frame), thing)

    async def _connect_by_envelope(self, thing: Thing) -> MaskedResponse:
        params = {"agentId": thing.agent, "threadId": thing.context}
        envelope = {"method": "agent/connect", "params": params, "body": _input(thing)}
        return await self._stream(thing, "/copilotkit", envelope)

    async def _log_stream(self, thing: Thing) -> MaskedResponse:
        path = f"/v1/agents/{thing.agent}/tasks/{thing.task}/log"
        events = {"Accept": "text/event-stream"}
        stream = self._http.stream("GET", path, headers=events)
        return MaskedResponse.of(await _begun(stream), thing)

    async def _of_own_thread(self, request: FleetRequest, thing: Thing) -> MaskedResponse:
        """Ask for a thread of which the caller has one of its own with that id."""
        body = {"message": message(_OWN_TEXT, contextId=thing.context)}
        sent = await self._http.post(f"/v1/agents/{_RUNS_IN}/message:send", json=body)
        return (
            MaskedResponse.of(sent, thing) if sent.is_error else await self._fleet(request, thing)
        )

    async def _followed(self, thing: Thing) -> MaskedResponse:
        """Follow a thread, of which the caller has one of its own; tell whether it is another."""
        body = {"message": message(_OWN_TEXT, contextId=thing.context)}
        sent = await self._http.post(f"/v1/agents/{_RUNS_IN}/message:send", json=body)
        if sent.is_error:
            return MaskedResponse.of(sent, thing)
        request = FLEET["thread: follow"]
        path, query = request.path(thing), request.query(thing)
        response = await _begun(self._http.stream("GET", path, params=query))
        text = None if response.is_error else str(f'"text":"{_OWN_TEXT}"' not in response.text)
        return MaskedResponse.of(response, thing, text)

    async def _fleet(self, request: FleetRequest, thing: Thing) -> MaskedResponse:
        body = None if request.body is None else request.body(thing)
        response = await self._http.request(
            request.method, request.path(thing), params=request.query(thing), json=body
        )
        received = None if response.is_error else request.told
        text = None if received is None else str(received(thing, response))
        return MaskedResponse.of(response, thing, text)

    async def _watch(self, request: FleetRequest, thing: Thing) -> MaskedResponse:
        """Watch the context while its owner begins a task there, and then the caller."""
        path, query = request.path(thing), _context(thing)
        own, is_anothers = list[str](), False
        async with asyncio.timeout(_TIMEOUT), self._http.stream("GET", path, params=query) as seen:
            if seen.is_error:
                await seen.aread()
                return MaskedResponse.of(seen, thing)
            async for change in _changes(seen):
                if not change:
                    # A watch begins like this, and says it again where it may have missed changes.
                    await thing.more()
                    own.append(await self._begun_in(thing))
                elif change["task"] == own[-1]:
                    return MaskedResponse.of(seen, thing, "another's" if is_anothers else "")
                else:
                    is_anothers = is_anothers or change["task"] not in own
        raise AssertionError("a watch has no end")

    async def _begun_in(self, thing: Thing) -> str:
        """Begin a task in the context, as the caller, and return its id after its end."""
        body = {"message": message("1", contextId=thing.context)}
        sent = await self._http.post(f"/v1/agents/{thing.agent}/message:send", json=body)
        return str(sent.raise_for_status().json()["task"]["id"])

    async def _run(self, thing: Thing, path: str) -> MaskedResponse:
        """Begin a run and wait for its end; answer with how many the thread has by then."""
        response = await self._http.post(path, json=_input(thing))
        if response.is_error:
            return MaskedResponse.of(response, thing)
        recovered = await self._http.get(f"{self._agui(thing)}/threads/{thing.context}")
        if recovered.is_error:
            return MaskedResponse.of(recovered, thing)
        return MaskedResponse.of(response, thing, str(len(recovered.json()["runs"])))


@asynccontextmanager
async def grpc_talk(http: httpx.AsyncClient, agent: str) -> AsyncIterator[Grpc]:
    """Yield a client over gRPC of the gateway that `http` talks to."""
    interfaces = (await http.get(f"/v1/agents/{agent}")).json()["supportedInterfaces"]
    [address] = [at["url"] for at in interfaces if at["protocolBinding"] == "GRPC"]
    async with grpc.aio.insecure_channel(address) as channel:
        yield Grpc(http, agent, channel)


BINDINGS = ("JSON-RPC", "REST", "gRPC", "WebSocket", "0.3", "pages")


@asynccontextmanager
async def binding(name: str, http: httpx.AsyncClient) -> AsyncIterator[Binding]:
    """Yield the binding of that name, with the credentials of `http`."""
    match name:
        case "JSON-RPC":
            yield A2A(Rpc(http))
        case "REST":
            yield A2A(Rest(http))
        case "gRPC":
            async with grpc_talk(http, _RUNS_IN) as talk:
                yield OverGrpc(talk)
        case "WebSocket":
            yield A2A(Socket(http))
        case "0.3":
            yield A2Av03Binding(http)
        case _:
            yield Pages(http)


def _agent(operation: str, thing: Thing) -> str:
    return "asker" if operation == "GetExtendedAgentCard" else thing.agent


def _params(operation: str, thing: Thing) -> list[tuple[Json, str]]:
    """Return each set of parameters, and the cursor beside it."""
    task = thing.task
    output = {
        "message": message("hello", taskId=task, messageId="m"),
        "configuration": {"returnImmediately": True},
    }
    # Lists have the newest first, and the thing is new.
    filters: list[Json] = [
        {"contextId": thing.context},
        {"pageSize": _PAGE},
        {"pageSize": _PAGE, "status": "TASK_STATE_WORKING"},
        {"pageSize": _PAGE, "status": "TASK_STATE_COMPLETED"},
    ]
    asks: Mapping[str, list[tuple[Json, str]]] = {
        "SendMessage": [(output, "")],
        "SendStreamingMessage": [(output, "")],
        "ListTasks": [(one, "") for one in filters],
        "SubscribeToTask": [({"id": task}, ""), ({"id": task}, thing.cursor)],
        "SubscribeToContext": [({"contextId": thing.context}, "")],
        "CreateTaskPushNotificationConfig": [({"taskId": task, "url": HOOK}, "")],
        "GetTaskPushNotificationConfig": [({"taskId": task, "id": CONFIG}, "")],
        "ListTaskPushNotificationConfigs": [({"taskId": task}, "")],
        "DeleteTaskPushNotificationConfig": [({"taskId": task, "id": CONFIG}, "")],
        "GetExtendedAgentCard": [({}, "")],
    }
    return asks.get(operation, [({"id": task}, "")])


def _old_params(operation: str, thing: Thing) -> Json:
    match operation:
        case "SendMessage" | "SendStreamingMessage":
            output = {
                "kind": "message",
                "messageId": "m",
                "role": "user",
                "parts": [{"kind": "text", "text": "hello"}],
                "taskId": thing.task,
            }
            return {"message": output, "configuration": {"blocking": False}}
        case "CreateTaskPushNotificationConfig":
            return {"taskId": thing.task, "pushNotificationConfig": {"url": HOOK}}
        case "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig":
            return {"id": thing.task, "pushNotificationConfigId": CONFIG}
        case "GetExtendedAgentCard":
            return {}
    return {"id": thing.task}


def _thread(thing: Thing) -> Json:
    return {"threadId": thing.context}


def _input(thing: Thing) -> Json:
    return {
        "threadId": thing.context,
        "runId": "r",
        "state": {},
        "messages": [{"id": "u", "role": "user", "content": "1"}],
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }


async def _changes(watch: httpx.Response) -> AsyncIterator[Json]:
    """Yield the data of a watch's events."""
    async for line in watch.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


async def _begun(opening: AbstractAsyncContextManager[httpx.Response]) -> httpx.Response:
    """Return an answer whole, or what it begins with if it is a stream."""
    async with asyncio.timeout(_TIMEOUT), opening as response:
        first = ""
        is_stream = "event-stream" in response.headers.get("content-type", "text/event-stream")
        if response.is_error or not is_stream:
            await response.aread()
            return response
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                first = line
                break
        return httpx.Response(response.status_code, headers=response.headers, text=first)
