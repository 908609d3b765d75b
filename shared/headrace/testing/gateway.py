"""A gateway's operations on tasks without its servers: submit, follow up, cancel, feeds."""

import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from headrace.did_you_mean import did_you_mean
from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.log import TailRule, last_entry, writer_of
from headrace.model.events import Json
from headrace.model.messages import GetTask, TaskFound
from headrace.model.task import TERMINAL, TaskKey
from headrace.model.wait import SourceEvent, WebhookAddress
from headrace.state_client import StateClient
from headrace.tasks.admission import Admission, RunLimits
from headrace.tasks.cancel import cancel_task
from headrace.tasks.wake import OpenRun
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.feeds import Feed, Feeds
from headrace_gateway.refusals import AgentUnknown, TaskEnded
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.tasks.cancel import WatchedFeed
from headrace_gateway.tasks.fork import ForkRequest, TaskForker
from headrace_gateway.tasks.idempotency import Idempotency, IdempotencyRecords
from headrace_gateway.tasks.settlement import Settlement
from headrace_gateway.tasks.submission import RunAppends, Submission, Submissions
from headrace_gateway.tasks.webhook_call import WebhookCall

_UNLIMITED = -1


class GatewayTasks:
    """A gateway's operations on tasks, for one caller."""

    def __init__(self, bus: Bus, directory: Directory) -> None:
        """Send to `bus`; `directory` lists the agents."""
        settings = GatewaySettings.model_construct(
            max_waiting_per_agent=_UNLIMITED, max_waiting_per_tenant=_UNLIMITED
        )
        self._bus, self._directory, self._caller = bus, directory, Caller()
        self._rule = TailRule(bus)
        self._background = BackgroundWork()
        self.feeds = Feeds(bus, self._rule, settings.feed_bytes, self._background)
        settlement = Settlement(bus, self._background, settings.append_timeout)
        records = IdempotencyRecords(bus, settings.idempotency_seconds, time.time)
        idempotency = Idempotency(bus, records)
        self._state = StateClient(bus, check_unknown=settlement.check)
        links = self.feeds.links
        appends = RunAppends(bus, links, RunLimits(Admission(bus, settings)), settlement)
        self._submissions = Submissions(
            bus,
            self.feeds,
            self._state,
            directory,
            appends=appends,
            idempotency=idempotency,
            background=self._background,
        )
        self._forker = TaskForker(
            bus,
            self._state,
            self._submissions,
            appends=appends,
            idempotency=idempotency,
            background=self._background,
        )
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Start to follow logs."""
        self._stack.push_async_callback(self._rule.stop)
        self._stack.push_async_callback(self._background.drain)
        await self._rule.start()

    async def stop(self) -> None:
        """Stop, after operations in progress have ended."""
        await self._stack.aclose()

    def place(self, agent: str, context: str | None) -> tuple[TaskKey, str]:
        """Return a new task's key and context (see `Submissions.place`)."""
        try:
            return self._submissions.place(self._caller, agent, context)
        except AgentUnknown as unknown:
            known = [card.name for card in self._directory.cards()]
            raise AgentUnknown(f"{unknown}{did_you_mean(agent, known)}") from None

    def subject(self, key: TaskKey) -> str:
        """Return the subject of the log at `key`."""
        return self._bus.subjects.event(key)

    async def begin(self, key: TaskKey, context: str, message: Json) -> None:
        """Begin the task at `key` with `message`."""
        submission = Submission(self._caller, key.agent, message, context)
        async with await self._submissions.begin(submission, key, context):
            pass  # Each reader of the task opens a feed of its own.

    async def follow_up(self, key: TaskKey, message: Json) -> int:
        """Append `message` to the task and return its generation (see `Submissions.submit`)."""
        submission = Submission(self._caller, key.agent, message, task=key.task)
        async with await self._submissions.submit(submission) as accepted:
            return accepted.generation

    async def fork(
        self, key: TaskKey, generation: int | None, message: Json | None
    ) -> tuple[TaskKey, str]:
        """Fork the task and return the fork's key and context (see `TaskForker.fork`)."""
        return await self._forker.fork(ForkRequest(self._caller, key, generation, message))

    async def cancel(self, key: TaskKey, reached: Callable[[], None]) -> None:
        """Cancel the task and return when its log has recorded that.

        `reached` is called when the holder has stopped the agent but has not appended the end yet.

        Raises:
            TaskEnded: the task had already ended.
        """
        if (await self.found(key)).state in TERMINAL:
            raise TaskEnded(f"task {key.task} is over")
        async with await self.feeds.open(key) as feed:
            await cancel_task(self._bus, key, writer_of("gateway"), _Reached(feed, reached))

    async def call_webhook(self, key: TaskKey, name: str, arrival: SourceEvent) -> None:
        """Call a webhook of the task's run.

        Raises:
            NotWaiting: the run has ended.
            AlreadyAnswered: the webhook has been called before.
        """
        last = await last_entry(self._bus, key)
        address = WebhookAddress(key, 0 if last is None else last.stamp.run, name)
        run = await OpenRun.read(self._bus, key, address.run)
        await WebhookCall(address, run, self._caller.owner).record(arrival)

    async def found(self, key: TaskKey) -> TaskFound:
        """Return the current task."""
        caller = self._caller
        query = GetTask(tenant=caller.tenant, owner=caller.owner, agent=key.agent, task=key.task)
        return await self._state.get(query)


class _Reached(WatchedFeed):
    """A canceled task's feed, which reports that the holder has received the cancel."""

    def __init__(self, feed: Feed, reached: Callable[[], None]) -> None:
        super().__init__(feed)
        self._reached = reached

    async def run_ends(self) -> bool:
        self._reached()
        return await super().run_ends()
