"""Task state's composition, start and stop."""

import asyncio
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from faststream import FastStream

from headrace import metrics, service
from headrace.background import keep_running
from headrace.directory import Directory
from headrace.jetstream.broker import FleetBroker, telemetry
from headrace.jetstream.connection import Bus, OnClosed
from headrace.jetstream.server_clock import ServerClock
from headrace.jetstream.streams import kept_for
from headrace.model.errors import BusUnavailable, StateUnavailable
from headrace.processes import ProcessAnswers
from headrace.signing import SigningKeys
from headrace.triggers import TriggerStore
from headrace.wait_for import wait_for
from headrace.webhooks import Webhooks
from headrace_task_state.commands.for_workers import WorkerCommands
from headrace_task_state.commands.start_child import ChildStarter
from headrace_task_state.commands.waits import WaitCommands
from headrace_task_state.maintenance.due import Upkeep
from headrace_task_state.maintenance.file_upkeep import FileUpkeep
from headrace_task_state.maintenance.held_tasks import HeldTasks
from headrace_task_state.maintenance.holder_check import HolderCheck
from headrace_task_state.maintenance.memory_upkeep import MemoryUpkeep
from headrace_task_state.maintenance.orphans import Orphans
from headrace_task_state.maintenance.queue_upkeep import QueueUpkeep
from headrace_task_state.maintenance.retention import Retention, Times
from headrace_task_state.maintenance.store_health import StoreHealth
from headrace_task_state.maintenance.summary_completion import SummaryCompletion
from headrace_task_state.maintenance.sweep import Sweep
from headrace_task_state.maintenance.timing import MaintenanceTiming
from headrace_task_state.maintenance.worker_watch import WorkerWatch
from headrace_task_state.projector.follower import RangeFollower
from headrace_task_state.queries.frontier import Frontier
from headrace_task_state.replica import Replica
from headrace_task_state.requests import AnswerPieces, Answers, Questions
from headrace_task_state.settings import TaskStateSettings
from headrace_task_state.store import Lease, Reader, Store, all_ranges
from headrace_task_state.store_redis.store import Keys, RedisStore
from headrace_task_state.webhooks.range_notifier import RangeNotifier
from headrace_task_state.webhooks.sender import (
    SenderResources,
    allowed_destinations,
    sender_resources,
)

_log = logging.getLogger(__name__)

_HEADERS = 16 * 1024
"""Bytes of an answer's message reserved for headers."""

_NAME = "headrace_task_state"
"""Of the service, in FastStream's metrics."""

_LOOK_AGAIN = 1.0


class TaskState:
    """One replica of the service."""

    def __init__(
        self, settings: TaskStateSettings, timing: MaintenanceTiming | None = None
    ) -> None:
        """Prepare; `start` does the work."""
        self._settings, self._timing = settings, timing or MaintenanceTiming()
        self._name = secrets.token_hex(4)
        self._bus = Bus(settings)
        self._directory = Directory(self._bus)
        self._ranges = all_ranges(settings.event_streams)
        keys = Keys.of(settings.prefix, settings.stream_prefix)
        self._store: Store = RedisStore(settings, keys, self._ranges, settings.usage_days)
        self._health = StoreHealth(self._store)
        self._clock = ServerClock(self._bus, {"Redis": self._store.time})
        for one in self._ranges:
            metrics.FOLLOWING.labels(one.name).set(0)
        self._times: Times
        self._signing: SigningKeys
        self._stack = AsyncExitStack()
        self._sender_resources: SenderResources
        self._frontier: Frontier
        self._held = HeldTasks()
        self._answers_now = False

    @property
    def is_ready(self) -> bool:
        """Whether it answers requests and NATS answers."""
        return self._answers_now and self._bus.answers

    @property
    def note(self) -> str:
        """A remark for operators although it is ready; usually empty."""
        if self._health.refusal:
            return f"the view is not written: {self._health.refusal}"
        return self._clock.deviation and f"clocks are not synchronized: {self._clock.deviation}"

    def on_closed(self, callback: OnClosed) -> None:
        """Call `callback` if a connection to NATS is closed for good."""
        self._bus.on_closed(callback)

    async def start(self) -> None:
        """Connect, serve requests, and take a share of the ranges.

        Raises:
            SettingInvalid: a file of HEADRACE_SIGNING_KEYS holds no key, or HEADRACE_PUSH_ALLOW
                names what is neither a host nor a network.
            BusUnavailable: NATS or Redis did not answer within `startup_timeout`.
        """
        self._signing = SigningKeys(self._bus, self._settings.signing_keys)
        if self._settings.push_allow:  # Few do, and its module is a large import.
            allowed_destinations(self._settings.push_allow)
        await self._connect()
        reader = self._store.reader
        frontier = self._frontier = Frontier(self._bus, reader, self._ranges)
        questions = Questions(
            self._settings.subjects,
            self._answers(reader, frontier),
            self._pieces(),
            self._settings.log_version,
        )
        observers = telemetry(_NAME)
        broker = FleetBroker(
            self._settings, "task-state answers", note_closed=self._bus.note_closed
        )
        questions.include_in(broker, observers)
        await self._serve(broker)
        if other_version_in_use := await self._store.is_other_version_in_use():
            _log.warning(
                "building a new view; the view of another version serves lists until it is built"
            )
        else:
            await questions.include_lists(broker, observers)
        # Requests reach no replica until the server has its subscriptions.
        await (await broker.connect()).flush()
        _log.info("replica %s is ready", self._name)
        await ProcessAnswers(self._bus, "task-state", self._name).start()
        await self._maintain()
        self._answers_now = not other_version_in_use

        async def switch() -> None:
            await self._caught_up(frontier)
            if other_version_in_use:
                await questions.include_lists(broker, observers)
                _log.info("the view is built; replica %s now serves lists, too", self._name)
                self._answers_now = True
            await self._store.delete_unused_versions(self._timing.version_interval)

        self._stack.callback(asyncio.create_task(switch(), name="versions").cancel)

    async def _connect(self) -> None:
        self._stack.push_async_callback(self._store.close)
        self._stack.push_async_callback(self._bus.close)
        await asyncio.gather(
            self._bus.connect(f"task-state {self._name}"),
            wait_for(self._store.name, self._store.check, self._settings.startup_timeout),
        )
        await wait_for("JetStream", self._read_times, self._settings.startup_timeout)
        self._stack.push_async_callback(self._directory.stop)
        await self._directory.start()

    async def _read_times(self) -> None:
        kept = await kept_for(self._bus.js, self._settings)
        self._times = Times(kept.ended, kept.waiting, self._settings.tombstone_seconds)

    async def _serve(self, broker: FleetBroker) -> None:
        application = FastStream(broker, logger=None)
        self._stack.push_async_callback(application.stop)
        await application.start()

    async def _maintain(self) -> None:
        """Take a share of the ranges, and do the work that belongs to no range."""
        self._sender_resources = await self._stack.enter_async_context(
            sender_resources(
                self._bus,
                self._settings,
                self._signing,
                self._timing,
                self._clock,
                retention=self._times.ended,
            )
        )
        await self._clock.compare()
        self._keep(self._clock.run, "clocks")
        self._keep(self._health.run, "metrics of Redis")
        replica = Replica(self._name, self._store.leases(self._name), self._ranges, self._duties)
        leasing = keep_running(replica.run, "leases")
        self._stack.push_async_callback(replica.stop)
        self._stack.callback(leasing.cancel)
        self._keep(QueueUpkeep(self._bus, self._timing).run, "unused queues")

    def _keep(self, run: Callable[[], Awaitable[None]], name: str) -> None:
        self._stack.callback(keep_running(run, name).cancel)

    @staticmethod
    async def _caught_up(frontier: Frontier) -> None:
        """Return once the view has reached all that was in the log when this was called."""
        while True:
            try:
                await frontier.reached()
            except (BusUnavailable, StateUnavailable) as error:
                _log.debug("the view is not built yet: %s", error)
                await asyncio.sleep(_LOOK_AGAIN)
            else:
                return

    async def stop(self) -> None:
        """Hand the ranges over and disconnect."""
        self._answers_now = False
        await self._stack.aclose()

    def _pieces(self) -> AnswerPieces:
        subject = self._settings.subjects.state(f"more.{self._name}")
        return AnswerPieces(subject, self._bus.max_payload - _HEADERS)

    def _answers(self, reader: Reader, frontier: Frontier) -> Answers:
        starter = ChildStarter(self._bus, self._directory, self._settings)
        waits = WaitCommands(
            self._bus,
            Webhooks(self._bus).wait,
            TriggerStore(self._bus).wait,
            self._settings.trigger_subjects,
        )
        workers = WorkerCommands(self._bus, starter, waits, self._timing.cancel)
        return Answers(self._bus, reader, frontier, workers, lambda: self._health.refusal)

    def _duties(self, lease: Lease) -> list[Coroutine[Any, Any, None]]:
        writer = self._store.writer(lease)
        notifier = RangeNotifier(self._sender_resources, lease.range, writer.confirm)
        settings, timing, held = self._settings, self._timing, self._held
        upkeep = Upkeep(self._bus, writer, self._clock, timing)
        completion = SummaryCompletion(upkeep, settings.sweep_after)
        retention = Retention(upkeep, self._times, notifier, completion.complete)
        follower = RangeFollower(
            self._bus,
            writer,
            settings.sweep_after,
            notifier.announce,
            retention.wake,
            silence=timing.silence,
            output_linger=timing.output_linger,
            lag_interval=timing.lag_interval,
        )
        sweep = Sweep(upkeep, self._directory, settings.start_within, held)
        watch = WorkerWatch(self._bus, self._directory.agents_by_worker, timing.watch, held)
        kept = self._times.waiting + self._times.ended
        files = FileUpkeep(upkeep, self._store.reader.progress, kept)
        memory = MemoryUpkeep(
            self._bus,
            self._store.reader,
            self._frontier,
            files,
            confirm=writer.confirm,
            interval=timing.file_interval,
        )
        return [
            # Workers and files belong to no range, but one replica should look after them.
            *([watch.run(), files.run(), memory.run()] if lease.range == self._ranges[0] else ()),
            notifier.run(),
            follower.run(),
            completion.run(),
            sweep.run(),
            HolderCheck(upkeep, self._directory, sweep).run(),
            Orphans(upkeep).run(),
            retention.run(),
        ]


def run() -> int:
    """Serve until SIGTERM or SIGINT; return the process's exit code (see `headrace.service`)."""
    return service.run(_prepare, os.environ)


def _prepare() -> service.PreparedService:
    settings = TaskStateSettings()
    return service.PreparedService(
        settings.log_options("headrace-task-state"), lambda stop: serving(settings, stop)
    )


def serving(settings: TaskStateSettings, stop: service.Stop) -> AbstractAsyncContextManager[None]:
    """Run task state for the length of the block; fail `stop` if NATS is lost for good.

    Raises:
        SettingInvalid: a setting, or a file that it names, breaks a rule.
        PortTaken: HEADRACE_METRICS_PORT is not available.
        BusUnavailable: NATS or Redis did not answer within HEADRACE_STARTUP_TIMEOUT.
        StreamsDiffer: the streams differ from the settings.
    """
    return service.serving("task-state", TaskState(settings), settings, stop)
