"""Scripted worker and task state for tests of gateways.

Agents are scripts that write a task's log; task state is a fold of the log made for each question.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import orjson
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import FlushTimeoutError
from nats.js.api import RawStreamMsg
from nats.js.errors import NotFoundError

from headrace.directory import TIMING, AgentCard, Announcer
from headrace.jetstream.api import stream_state
from headrace.jetstream.connection import Bus
from headrace.log import LogWriter, last_entry, replay
from headrace.model import events
from headrace.model.entry import OWNER, Entry, Stamp
from headrace.model.errors import BusUnavailable, LogLost, TaskUnknown
from headrace.model.events import Draft, Json
from headrace.model.fold import TaskFold
from headrace.model.messages import (
    Control,
    FindTasks,
    GetTask,
    GetUsage,
    HolderReply,
    ListTasks,
    Refusal,
    RowsFound,
    RunRequest,
    TaskFound,
    TasksFound,
    UsageFound,
)
from headrace.model.task import (
    BARE_MESSAGE,
    CANCELED,
    SUBMITTED,
    WORKING,
    TaskKey,
    mint_log_id,
    mint_task_id,
)
from tests.support.waiting import eventually


@dataclass
class Run:
    """The work on one input, as a script sees it."""

    bus: Bus
    key: TaskKey
    context: str
    log: str
    run: int
    message: Json
    metadata: Json
    """Of the input's event."""
    writer: LogWriter
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by a test that lets a script go on which waits for it."""

    async def append(self, drafts: Sequence[Draft], state: str = WORKING) -> None:
        """Append `drafts` as one entry, after which the task is in `state`."""
        stamp = Stamp(self.log, self.writer.generation + 1, "scripted", state, self.run, 1)
        await self.writer.append(drafts, stamp)

    async def working(self) -> None:
        """Begin the attempt."""
        metadata = {events.ATTEMPT: 1, events.WORKER: "scripted"}
        await self.append([self.status_draft(WORKING, metadata=metadata)])

    def status_draft(self, state: str, text: str = "", *, metadata: Json | None = None) -> Draft:
        """Return a status update, with a message if there is a `text`."""
        message = agent_message(text) if text else None
        return events.status_update(self.key.task, self.context, state, message, metadata)

    async def status(self, state: str, text: str = "") -> None:
        """Append a status update."""
        await self.append([self.status_draft(state, text)], state)

    async def chunk(self, text: str, *, append: bool = True) -> None:
        """Append a piece of the one artifact."""
        artifact = {"artifactId": "answer", "parts": [{"text": text}]}
        update = events.artifact_update(self.key.task, self.context, artifact, append=append)
        await self.append([update])

    async def answer(self, text: str) -> None:
        """End the log with a bare Message."""
        await self.append([events.bare_message(self.context, agent_message(text))], BARE_MESSAGE)


type Script = Callable[[Run], Coroutine[Any, Any, None]]


def agent_message(text: str) -> Json:
    """Return a message of the agent."""
    message = {"messageId": secrets.token_hex(4), "role": "ROLE_AGENT", "parts": [{"text": text}]}
    return dict(message)


type Agents = dict[str, tuple[AgentCard, Script]]
"""What a fleet serves: cards and scripts by the agents' names."""


class ScriptedFleet:
    """Serves scripts as agents, and answers for task state."""

    def __init__(self, bus: Bus, agents: Agents) -> None:
        """Serve `agents` over `bus` once started."""
        self.bus = bus
        self.announcer = Announcer(bus, "scripted")
        self.runs: list[Run] = []
        self.following = True
        """What task state says of itself."""
        self.working = True
        """Whether new runs are taken."""
        self.asked_rows: list[FindTasks] = []
        self.rows = RowsFound(tasks=[], counts={}, total_size=0, next_page_token="")
        """What task state finds for all callers."""
        self.asked_usage: list[GetUsage] = []
        self.usage = UsageFound(rows=[])
        """What task state says of all usage."""
        self._agents = agents
        self._keys: dict[str, tuple[TaskKey, str | None]] = {}
        """Each task's key and context, by its id."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._coming = 0
        """Runs that are looked at: they become runs, or not."""
        self._taken: set[tuple[str, int]] = set()
        self._subscriptions: list[Subscription] = []
        self._state: list[Subscription] = []
        self._stop_sweeping: Callable[[], None] = lambda: None

    async def start(self) -> Self:
        """Announce the agents, listen for runs, answer for task state."""
        for card, _ in self._agents.values():
            await self.announcer.announce(card)
        self._start(self._renew())
        for runs in self.bus.subjects.runs():
            await self._listen(runs, self._on_run, self._subscriptions)
        self._stop_sweeping = self.bus.on_disturbance(self._sweep_soon)
        live = f"{self.bus.subjects.prefix}.live.>"
        await self._listen(live, self._on_live, self._subscriptions)
        await self.start_state()
        return self

    async def _renew(self) -> None:
        """Renew the worker's keys, as a living one does: they would expire during a module."""
        while True:
            await asyncio.sleep(TIMING.renew_interval)
            for card, _ in self._agents.values():
                with suppress(BusUnavailable):
                    await self.announcer.renew(card.name, card.pinned_version)

    async def stop(self) -> None:
        """Listen no more and end the scripts."""
        self._stop_sweeping()
        await self.stop_state()
        for subscription in self._subscriptions:
            await subscription.unsubscribe()
        await self.stop_working()

    async def settle(self) -> None:
        """Return when every run requested until now has begun, or never will."""
        await self._flush()
        await asyncio.sleep(0.01)
        while self._coming:  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.01)

    async def stop_working(self) -> None:
        """Be a worker that was killed: runs stop where they are, and nobody answers for them."""
        self.working = False
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._coming = 0  # Some may not have been looked at even.
        await self._flush()

    async def _flush(self) -> None:
        """Return when the server has taken all that was sent.

        Tests without a loop of their own block the module's: the server may have hung up meanwhile,
        and what waits for it then waits for ever.
        """

        async def is_through() -> bool:
            with suppress(FlushTimeoutError):
                await self.bus.connection.flush(5)
                return True
            return False

        await eventually(is_through, "NATS has taken all that was sent")

    async def start_state(self) -> None:
        """Answer for task state (again)."""
        answers = {
            "get": self._get,
            "list": self._list,
            "ready": self._ready,
            "find": self._find,
            "usage": self._usage,
        }
        for operation, answer in answers.items():
            await self._listen(self.bus.subjects.state(operation), answer, self._state)

    async def stop_state(self) -> None:
        """Be a task state that is down."""
        for subscription in self._state:
            await subscription.unsubscribe()
        self._state.clear()
        await self._flush()

    async def foreign_task(self, agent: str, context: str) -> TaskKey:
        """Put a task of somebody else's into the log."""
        key = TaskKey("default", agent, mint_task_id(0))
        draft = events.task_submitted(key.task, context, agent_message("secret"))
        stamp = Stamp(mint_log_id(), 1, "other", SUBMITTED, 1, owner="somebody")
        await LogWriter(self.bus, key).append([draft], stamp)
        return key

    async def _listen(
        self,
        subject: str,
        receive: Callable[[Msg], Coroutine[Any, Any, None]],
        kept: list[Subscription],
    ) -> None:
        kept.append(await self.bus.connection.subscribe(subject, cb=receive))
        await self._flush()

    async def _on_live(self, msg: Msg) -> None:
        key, owner = self.bus.subjects.key_of_event(msg.subject), (msg.headers or {}).get(OWNER)
        if owner is not None and key.task not in self._keys:
            first = orjson.loads(msg.data.partition(b"\n")[0] or b"{}")
            self._keys[key.task] = key, first.get("task", {}).get("contextId")

    def _sweep_soon(self) -> None:
        self._coming += 1
        self._start(self._sweep())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sweep(self) -> None:
        """Take the runs that were requested while the connection was away.

        A worker finds them in its queue; these scripts only listen, and would never hear of them.
        """
        found: list[RawStreamMsg] = []

        async def is_read() -> bool:
            found.clear()
            with suppress(NatsError, OSError):
                name = self.bus.streams.runs
                state = (await self.bus.js.stream_info(name)).state
                for sequence in range(state.first_seq, state.last_seq + 1):
                    with suppress(NotFoundError):
                        found.append(await self.bus.js.get_msg(name, sequence))
                return True
            return False

        try:
            await eventually(is_read, "the queue of runs is read")
            for request in found:
                await self._on_run(request)
        finally:
            self._coming -= 1

    async def _on_run(self, msg: Msg | RawStreamMsg) -> None:
        if not self.working or msg.subject is None or msg.data is None:
            return
        key, run = self.bus.subjects.key_of_run(msg.subject)
        self._coming += 1
        self._start(self._work(key, run, RunRequest.decode(msg.subject, msg.data)))

    async def _work(self, key: TaskKey, number: int, request: RunRequest) -> None:
        try:
            run = await self._run(key, number, request)
        finally:
            self._coming -= 1
        if run is not None:
            with suppress(LogLost):  # Its log was erased: a worker's attempt ends there too.
                await self._hold(run)

    async def _run(self, key: TaskKey, number: int, request: RunRequest) -> Run | None:
        last = await last_entry(self.bus, key)
        if last is None:
            return None  # It was deleted since.
        # A run may come in copies; the log decides, as for any worker.
        if last.stamp.run != number or last.stamp.attempt or (key.task, number) in self._taken:
            return None
        self._taken.add((key.task, number))
        writer = LogWriter.after(self.bus, key, last)
        message, metadata = _input(last)
        run = Run(self.bus, key, request.context, request.log, number, message, metadata, writer)
        self.runs.append(run)
        return run

    async def _hold(self, run: Run) -> None:
        key, working = run.key, asyncio.current_task()

        async def control(msg: Msg) -> None:
            request = Control.decode(msg.subject, msg.data)
            await msg.respond(
                HolderReply(writer="scripted", worker="w", run=run.run, attempt=1).encode()
            )
            if request.ask == "cancel" and working is not None:
                working.cancel()

        holding = await self.bus.connection.subscribe(self.bus.subjects.control(key), cb=control)
        try:
            await run.working()
            await self._agents[key.agent][1](run)
        except asyncio.CancelledError:
            if self.working:
                await run.status(CANCELED)
        finally:
            await holding.unsubscribe()

    async def _entries(self, key: TaskKey) -> list[Entry]:
        last = await last_entry(self.bus, key)
        if last is None:
            return []
        return [e async for batch in replay(self.bus, key, 0, last.sequence) for e in batch]

    async def _found(self, query: GetTask) -> TaskFound | Refusal:
        key = TaskKey(query.tenant, query.agent or "", query.task)
        try:
            entries = await self._entries(key)
        except LogLost:
            entries = []
        if not entries or not (query.any_owner or entries[0].stamp.owner == query.owner):
            return Refusal(code="task_unknown", message=str(TaskUnknown()))
        fold = TaskFold()
        for entry in entries:
            fold.apply_entry(entry)
        return TaskFound(
            task=fold.task(query.history_length),
            agent=key.agent,
            log=entries[-1].stamp.log,
            generation=fold.generation,
            sequence=entries[-1].sequence,
            state=entries[-1].stamp.state,
        )

    async def _get(self, msg: Msg) -> None:
        await msg.respond((await self._found(GetTask.decode(msg.subject, msg.data))).encode())

    async def _list(self, msg: Msg) -> None:
        query = ListTasks.decode(msg.subject, msg.data)
        if query.page_token not in ("", "next"):
            await msg.respond(
                Refusal(
                    code="bad_request", message="must be a token from a previous response"
                ).encode()
            )
            return
        tasks = [task async for task in self._listed(query)]
        answer = TasksFound(
            tasks=tasks[: query.page_size],
            next_page_token="next" if len(tasks) > query.page_size else "",
            page_size=query.page_size,
            total_size=len(tasks),
        )
        await msg.respond(answer.encode())

    async def _find(self, msg: Msg) -> None:
        self.asked_rows.append(FindTasks.decode(msg.subject, msg.data))
        await msg.respond(self.rows.encode())

    async def _usage(self, msg: Msg) -> None:
        self.asked_usage.append(GetUsage.decode(msg.subject, msg.data))
        await msg.respond(self.usage.encode())

    async def _listed(self, query: ListTasks) -> AsyncIterator[Json]:
        for key, context in list(self._keys.values()):
            if key.tenant != query.tenant or key.agent not in query.agents:
                continue
            if query.context is not None and context not in (None, query.context):
                continue  # To read the logs of all would take as long as a gateway waits.
            found = await self._found(
                GetTask(
                    tenant=query.tenant,
                    owner=query.owner,
                    any_owner=query.any_owner,
                    agent=key.agent,
                    task=key.task,
                    history_length=query.history_length,
                )
            )
            if (
                isinstance(found, TaskFound)
                and (not query.states or found.state in query.states)
                and query.context in (None, found.task["contextId"])
            ):
                yield found.task

    async def _ready(self, msg: Msg) -> None:
        heads = {
            str(number): (await stream_state(self.bus, self.bus.streams.events(number))).last
            for number in range(self.bus.settings.event_streams)
        }
        await msg.respond(orjson.dumps({"following": self.following, "positions": heads}))


def _input(entry: Entry) -> tuple[Json, Json]:
    """Return the message of the input that `entry` is, and the event's metadata."""
    event = entry.events[-1]
    if "task" in event:
        return event["task"]["history"][0], event["task"]["metadata"]
    return event["statusUpdate"]["status"]["message"], event["statusUpdate"]["metadata"]
