"""The client: requests to agents behind Headrace's gateways."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import quote

import httpx

from headrace.client.client_task import ClientTask, message_as_task
from headrace.client.declarations import ClientDeclarations
from headrace.client.errors import ConnectionLost, ErrorResponse, RequestRefused
from headrace.client.gateways import Gateways, Request, Token
from headrace.client.list_stream import ListStream
from headrace.client.outgoing_message import Attachment, OutgoingMessage
from headrace.client.paged_list import PagedList
from headrace.client.paths import agent_path, run_path, task_path
from headrace.client.retries import RetryOptions
from headrace.client.run_stream import RunStream
from headrace.client.schedules import ClientSchedules
from headrace.client.task_stream import TaskStream
from headrace.model.events import Json
from headrace.model.user_message import MessageContent

_STATE = "TASK_STATE_"
_EVENTS = {"Accept": "text/event-stream"}


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """An agent of a fleet."""

    name: str
    is_available: bool
    """Whether a worker serves it now."""
    description: str
    is_default: bool = False
    """Whether it is the default agent."""


class Client:
    """A client of one fleet, for one caller.

        async with Client("http://127.0.0.1:8080", token="…") as client:
            answer = await client.send("shop", "nails")

    Requests are repeated, and streams resumed, when a connection breaks: at another gateway if
    there are several. Messages have an Idempotency-Key, so that none is accepted twice.

    Every method raises `RequestRefused` if a gateway refuses the request, `ConnectionLost` if no
    gateway answers, and ValueError for a token or a message that can't be sent. An agent's
    name may be None for the default agent.
    """

    def __init__(
        self,
        *urls: str,
        token: Token | None = None,
        attempts: int = 12,
        backoff: float = 0.1,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """Use a fleet's gateways.

        Args:
            urls: The gateways, or a load balancer before them, such as ``http://127.0.0.1:8080``.
            token: A bearer token, or a function that returns the current one.
            attempts: Failures in a row after which the client gives up; by default after 30 s.
            backoff: Seconds before the attempt after the first failure. The pause doubles with each
                further one, to at most 5 s, and half of it is random.
            http: An HTTP client with settings of its own (certificates, proxies); it is left open.

        Raises:
            ValueError: a URL is not an http(s) URL, or there is none.
        """
        self._gateways = Gateways(urls, token, RetryOptions(attempts, backoff), http)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._gateways.close()

    async def send(  # noqa: PLR0913 - the parts of a message
        self,
        agent: str | None,
        message: MessageContent = "",
        *,
        task: str | None = None,
        context: str | None = None,
        files: Sequence[Attachment] = (),
        answers: Mapping[str, Any] | None = None,
        start_at: datetime | str | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
    ) -> ClientTask:
        """Send a message and return its task when the run has ended or requires input.

        Args:
            agent: The agent's name.
            message: Text, an A2A Message, or A2A Parts.
            task: The task that the message continues or answers. None: a new one.
            context: The conversation of a new task. None: a new one.
            files: Files to attach: `headrace.File`, or paths.
            answers: Answers to the agent's interrupts, by id: text or any JSON; None cancels.
            start_at: The time at which the run begins, with an offset from UTC: the task is
                returned at once. None, or in the past: now.
            idempotency_key: Identifies the message: sent again with the same key, by any client, it
                begins nothing. None: a new key.
            wait: Whether to wait for the run. False: the task is returned once it is accepted.
        """
        key = idempotency_key or str(uuid.uuid4())
        outgoing = OutgoingMessage(
            agent, message, task, context, files, answers, start_at, key, is_waiting=wait
        )
        answer = await self._gateways.json(await outgoing.request("send"), may_wait=True)
        replied = answer.get("message")
        return self._result(agent, message_as_task(replied) if replied else answer.get("task"))

    def stream(  # noqa: PLR0913 - the parts of a message
        self,
        agent: str | None,
        message: MessageContent = "",
        *,
        task: str | None = None,
        context: str | None = None,
        files: Sequence[Attachment] = (),
        answers: Mapping[str, Any] | None = None,
        start_at: datetime | str | None = None,
        idempotency_key: str | None = None,
    ) -> TaskStream:
        """Return the events that a message causes; the arguments are those of `send`.

        The message is sent when the first event is requested.
        """
        key = idempotency_key or str(uuid.uuid4())
        outgoing = OutgoingMessage(agent, message, task, context, files, answers, start_at, key)
        return TaskStream(self._gateways, agent, task=task or "", sending=outgoing)

    def resume(self, agent: str | None, task: str, cursor: str = "") -> TaskStream:
        """Return the events of a task after `cursor`, from any stream of it on any gateway.

        Without a cursor, the first event is a snapshot of the task. With the cursor ``start``, the
        stream has all events of the task. With the last cursor of a task that waits for its user,
        the stream waits, too.
        """
        return TaskStream(self._gateways, agent, task=task, cursor=cursor)

    async def get(self, agent: str | None, task: str) -> ClientTask:
        """Return a task as it is now."""
        found = await self._gateways.json(Request("GET", task_path(agent, task)))
        return self._result(agent, found)

    def tasks(
        self,
        agent: str | None,
        *,
        context: str | None = None,
        state: str | None = None,
        page_size: int = 50,
    ) -> PagedList[ClientTask]:
        """Yield the caller's tasks, the latest first; pages are requested as they are needed.

        Args:
            agent: The agent's name.
            context: Only tasks of this conversation.
            state: Only tasks in this state, such as ``input-required``.
            page_size: Tasks per request, 1 to 100.
        """
        query: dict[str, str | int] = {"pageSize": page_size, **_filters(context, state)}
        names = ("tasks", "nextPageToken", "pageToken")
        path = f"{agent_path(agent)}/tasks"
        return PagedList(self._gateways, path, query, names, partial(self._result, agent))

    def watch(
        self, agent: str, *, context: str | None = None, state: str | None = None
    ) -> ListStream:
        """Return the changes in a list of tasks, without end; the filters are those of `tasks`.

        It begins with an event that has `must_list`: request the list then. Another one follows
        whenever changes may be missing.
        """
        return ListStream(self._gateways, agent, _filters(context, state))

    async def cancel(self, agent: str | None, task: str) -> ClientTask:
        """Cancel a task and return it as it ended."""
        request = Request("POST", f"{task_path(agent, task)}:cancel", {})
        return self._result(agent, await self._gateways.json(request))

    async def fork(
        self,
        agent: str | None,
        task: str,
        generation: int | None = None,
        message: MessageContent | None = None,
        *,
        files: Sequence[Attachment] = (),
        answers: Mapping[str, Any] | None = None,
    ) -> ClientTask:
        """Begin a new task with a task's past and return it, without waiting for its run.

        In the middle of a run, the past ends with the last input, checkpoint or step before
        `generation`; ``headrace.forkOf`` in the new task's metadata states where.

        Args:
            agent: The agent's name.
            task: The task whose past the new one has. It stays as it is.
            generation: The last event of the past. None: the task's current one.
            message: The next message, as for `send`. None: it continues as the task did.
            files: Files to attach to the message.
            answers: Answers to the agent's interrupts, as for `send`.
        """
        body: Json = {} if generation is None else {"generation": generation}
        if message is not None or files or answers:
            outgoing = OutgoingMessage(agent, message or "", None, None, files, answers)
            body["message"] = await outgoing.content()
        key = {"Idempotency-Key": str(uuid.uuid4())}
        request = Request("POST", f"{task_path(agent, task)}:fork", body, key)
        return self._result(agent, await self._gateways.json(request))

    async def delete(self, agent: str | None, task: str) -> None:
        """Erase a task permanently; one that has not ended is canceled first."""
        await self._gateways.json(Request("DELETE", task_path(agent, task)))

    async def give_feedback(
        self, agent: str | None, task: str, rating: str | None, comment: str = ""
    ) -> Json:
        """Say what its owner thinks of an ended task, in place of what was said before.

        `rating` is ``up`` or ``down``; None withdraws it. Returns what `feedback` returns.
        """
        path = f"{task_path(agent, task)}/feedback"
        body = {"rating": rating, "comment": comment}
        return await self._gateways.json(Request("PUT", path, body))

    async def feedback(self, agent: str | None, task: str) -> Json | None:
        """Return the feedback on a task: rating, comment and time. None: nobody gave any."""
        found = await self._gateways.json(Request("GET", f"{task_path(agent, task)}/feedback"))
        feedback: Json | None = found["feedback"]
        return feedback

    async def agents(self) -> list[AgentInfo]:
        """Return the fleet's agents."""
        found = await self._gateways.json(Request("GET", "/v1/agents"))
        return [
            AgentInfo(
                one["id"],
                bool(one.get("available")),
                one.get("description", ""),
                bool(one.get("default")),
            )
            for one in found.get("agents", [])
        ]

    async def fleet(self) -> Json:
        """Return the current fleet (docs/fleet-api.md); for non-operators, its agents."""
        return await self._gateways.json(Request("GET", "/v1/fleet"))

    async def processes(self) -> list[Json]:
        """Return the running processes of all services, for operators.

        Raises:
            RequestRefused: the gateway refuses the request.
            ConnectionLost: no gateway answers.
        """
        found = await self._gateways.json(Request("GET", "/v1/processes"))
        processes: list[Json] = found["processes"]
        return processes

    async def set_log_level(
        self, level: str, *, service: str | None = None, process: str | None = None
    ) -> list[Json]:
        """Have processes log at `level` until they end; return those that do, for operators.

        Raises:
            RequestRefused: the gateway refuses the request, or there is no such process.
            ConnectionLost: no gateway answers.
        """
        stated = {"level": level, "service": service, "process": process}
        body = {name: value for name, value in stated.items() if value is not None}
        path = "/v1/processes:logLevel"
        found = await self._gateways.json(Request("POST", path, body))
        processes: list[Json] = found["processes"]
        return processes

    async def drain(self, worker: str, agent: str | None = None) -> Json:
        """Make a worker start no more runs and exit after its active ones; for operators.

        Return its ``worker``, one ``agent`` of its and the number of active ``runs``. Call it again
        with that `agent` to get how many are left.

        Raises:
            RequestRefused: the worker does not exist or has stopped; the reason is
                ``worker_unknown``.
        """
        query = {} if agent is None else {"agent": agent}
        path = f"/v1/workers/{quote(worker, safe='')}:drain"
        return await self._gateways.json(Request("POST", path, query=query))

    async def usage(
        self, first: str, last: str, by: Sequence[str] = ("agent",), owner: str | None = None
    ) -> list[Json]:
        """Return what runs have used, a row per group.

        Operators see the usage of their tenant, others their own.

        Args:
            first: The first day, YYYY-MM-DD in UTC.
            last: The last day.
            by: Of ``day``, ``owner``, ``agent`` and ``root``; empty for one row.
            owner: Only this owner's, for operators.
        """
        query = {"from": first, "to": last, "by": ",".join(by) or "tenant"}
        if owner is not None:
            query["owner"] = owner
        found = await self._gateways.json(Request("GET", "/v1/usage", query=query))
        rows: list[Json] = found.get("rows", [])
        return rows

    @property
    def triggers(self) -> ClientDeclarations:
        """The caller's triggers."""
        return ClientDeclarations(self._gateways, "triggers")

    @property
    def schedules(self) -> ClientSchedules:
        """The caller's schedules."""
        return ClientSchedules(self._gateways)

    async def card(self, agent: str | None) -> Json:
        """Return an agent's A2A card."""
        path = f"{agent_path(agent)}/.well-known/agent-card.json"
        return await self._gateways.json(Request("GET", path))

    async def agent_of(self, task: str) -> str:
        """Return the name of the agent that has a task, by one request to each agent.

        Raises:
            RequestRefused: no agent has it.
        """
        refused: RequestRefused | None = None
        for agent in await self.agents():
            try:
                path = task_path(agent.name, task)
                await self._gateways.json(Request("GET", path, query={"historyLength": 0}))
            except RequestRefused as error:
                refused = error
            else:
                return agent.name
        raise refused or RequestRefused(
            ErrorResponse(HTTPStatus.NOT_FOUND, "the fleet has no agents")
        )

    def run(  # noqa: PLR0913 - the fields of AG-UI's RunAgentInput
        self,
        agent: str | None,
        messages: str | Sequence[Json] = (),
        *,
        thread: str | None = None,
        run: str | None = None,
        state: Any = None,  # noqa: ANN401  # any JSON
        tools: Sequence[Json] = (),
        context: Sequence[Json] = (),
        forwarded_props: Any = None,  # noqa: ANN401  # any JSON
        answers: Mapping[str, Any] | None = None,
    ) -> RunStream:
        """Return the events of an AG-UI run; it starts when the first event is requested.

        Args:
            agent: The agent's name.
            messages: AG-UI messages, or the text of one of the user's.
            thread: The conversation. None: a new one.
            run: The run's id. None: a new one. The same run is never started twice.
            state: The state that the run starts with.
            tools: Tools of the user interface, as AG-UI Tools.
            context: Context for the agent, as AG-UI Contexts.
            forwarded_props: Passed to the agent unchanged.
            answers: Answers to the last run's interrupts, by id: any JSON; None cancels.
        """
        if isinstance(messages, str):
            messages = [{"id": str(uuid.uuid4()), "role": "user", "content": messages}]
        body: Json = {
            "threadId": thread or str(uuid.uuid4()),
            "runId": run or str(uuid.uuid4()),
            "messages": list(messages),
            "state": {} if state is None else state,
            "tools": list(tools),
            "context": list(context),
            "forwardedProps": {} if forwarded_props is None else forwarded_props,
        }
        if answers:
            body["resume"] = [_resumed(*answer) for answer in answers.items()]
        return RunStream(self._gateways, Request("POST", run_path(agent), body, _EVENTS))

    def attach(self, agent: str | None, thread: str, run: str, cursor: str = "") -> RunStream:
        """Return the events of an existing AG-UI run after `cursor`.

        Without a cursor, the stream begins with snapshots of the state and the messages.
        """
        body = {"threadId": thread, "runId": run}
        request = Request("POST", f"{run_path(agent)}/attach", body, _EVENTS)
        return RunStream(self._gateways, request, cursor)

    async def stop(self, agent: str | None, thread: str, run: str) -> bool:
        """Cancel an AG-UI run; return whether it had not ended yet."""
        body = {"threadId": thread, "runId": run}
        found = await self._gateways.json(Request("POST", f"{run_path(agent)}/stop", body))
        return bool(found["stopped"])

    def _result(self, agent: str | None, task: Json | None) -> ClientTask:
        if not task or "id" not in task or "status" not in task:
            raise ConnectionLost("the gateway did not answer with a task")
        return ClientTask(task, agent, self, self._gateways)


def _filters(context: str | None, state: str | None) -> dict[str, str]:
    """Return the query for tasks of a conversation, in a state such as ``input-required``."""
    query = {"contextId": context} if context else {}
    return query | ({"status": _STATE + state.upper().replace("-", "_")} if state else {})


def _resumed(interrupt: str, answer: Any) -> Json:  # noqa: ANN401  # any JSON
    if answer is None:
        return {"interruptId": interrupt, "status": "cancelled"}
    return {"interruptId": interrupt, "status": "resolved", "payload": answer}
