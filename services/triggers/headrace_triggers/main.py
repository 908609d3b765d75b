"""Composition, start and stop of triggers."""

import logging
import os
import secrets
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial

from faststream import FastStream

from headrace import service
from headrace.background import check_regularly, keep_running
from headrace.directory import Directory
from headrace.jetstream.broker import FleetBroker, telemetry
from headrace.jetstream.connection import Bus, OnClosed
from headrace.jetstream.consumers import consumer_info
from headrace.jetstream.durables import of_due_runs, of_firings
from headrace.jetstream.finished_messages import remove_finished
from headrace.jetstream.server_clock import ServerClock
from headrace.processes import ProcessAnswers
from headrace.state_client import StateClient
from headrace.tasks.admission import Admission, RunLimits
from headrace.tasks.quotas import Quotas, read_quotas
from headrace.trigger_firings import FiringHistory
from headrace.triggers import TriggerStore
from headrace_triggers.awaited_events import delete_triggers_of_ended_runs
from headrace_triggers.chains import Chains
from headrace_triggers.delivery import Deliveries
from headrace_triggers.due_runs import DueRuns
from headrace_triggers.event_triggers import EventTriggers
from headrace_triggers.firing import Firings
from headrace_triggers.firing_recorder import FiringRecorder
from headrace_triggers.scheduled_tasks import ScheduledTasks
from headrace_triggers.settings import TriggersSettings

_NAME = "headrace_triggers"
"""Of the service, in FastStream's metrics."""

_FINISHED_INTERVAL = 60.0
"""Seconds."""

_log = logging.getLogger(__name__)


class TriggersReplica:
    """One replica of the service."""

    note = ""
    """A remark for operators although it is ready: there is none."""

    def __init__(
        self, settings: TriggersSettings, finished_interval: float = _FINISHED_INTERVAL
    ) -> None:
        """Prepare; `start` does the work.

        Firings that nats-server has again are removed every `finished_interval` seconds.
        """
        self._settings, self._finished_interval = settings, finished_interval
        self._name = secrets.token_hex(4)
        self._bus = Bus(settings)
        self._directory = Directory(self._bus)
        self._stack = AsyncExitStack()
        self._is_started = False

    @property
    def is_ready(self) -> bool:
        """Whether it takes events and NATS answers."""
        return self._is_started and self._bus.answers

    def on_closed(self, callback: OnClosed) -> None:
        """Call `callback` if a connection to NATS is closed for good."""
        self._bus.on_closed(callback)

    async def start(self) -> None:
        """Connect, and take events.

        Raises:
            QuotasUnreadable: HEADRACE_QUOTAS names no file of quotas.
            BusUnavailable: NATS did not answer within `startup_timeout`.
        """
        quotas = self._quotas()
        self._stack.push_async_callback(self._bus.close)
        await self._bus.connect(f"triggers {self._name}")
        self._stack.push_async_callback(self._directory.stop)
        await self._directory.start()
        admission = Admission(self._bus, self._settings)
        admission.start()
        self._stack.push_async_callback(admission.stop)
        observers = telemetry(_NAME, named=self._kind)
        broker = FleetBroker(
            self._settings, "triggers events", observers, self._bus.note_closed, injects=False
        )
        firings = Firings(self._bus, self._directory, RunLimits(admission, quotas))
        deliveries = Deliveries(self._bus, firings)
        server_clock = ServerClock(self._bus)
        await server_clock.compare()
        ScheduledTasks(self._bus, firings, deliveries, now=server_clock.now).subscribe(broker)
        DueRuns(self._bus).subscribe(broker)
        recorder = FiringRecorder(FiringHistory(self._bus))
        # After the last event and before the bus is closed.
        self._stack.push_async_callback(recorder.write)
        recording = keep_running(recorder.run, "the record of firings")
        self._stack.callback(recording.cancel)
        application = FastStream(broker, logger=None)
        self._stack.push_async_callback(application.stop)
        await application.start()
        settings = self._settings
        chains = Chains(self._bus, settings.chain_depth, settings.chain_tasks, settings.chain_rate)
        events = EventTriggers(self._bus, broker, deliveries, recorder, chains)
        following = keep_running(events.run, "triggers")
        self._stack.callback(following.cancel)
        self._stack.callback(keep_running(server_clock.run, "clocks").cancel)
        remove = partial(remove_finished_firings, self._bus)
        check = partial(check_regularly, remove, self._finished_interval, "finished firings")
        self._stack.callback(keep_running(check, "finished firings").cancel)
        ended = partial(delete_triggers_of_ended_runs, self._bus, TriggerStore(self._bus))
        check = partial(check_regularly, ended, self._finished_interval, "triggers of ended runs")
        self._stack.callback(keep_running(check, "triggers of ended runs").cancel)
        await ProcessAnswers(self._bus, "triggers", self._name).start()
        self._is_started = True
        _log.info("replica %s is ready", self._name)

    def _quotas(self) -> Quotas | None:
        path = self._settings.quotas
        return None if path is None else Quotas(read_quotas(path), StateClient(self._bus))

    def _kind(self, subject: str) -> str:
        # Subjects of events are the users' and those of firings contain names: both are unbounded.
        return "firings" if subject.startswith(f"{self._settings.prefix}.") else "events"

    async def stop(self) -> None:
        """Take no more events and disconnect. What is not acknowledged goes to other replicas."""
        self._is_started = False
        await self._stack.aclose()


async def remove_finished_firings(bus: Bus) -> None:
    """Remove finished firings and due runs that nats-server has again after ``kill -9``.

    Each was acknowledged: a firing once it had its outcome, a run once queued.

    Raises:
        BusUnavailable: JetStream does not answer.
    """
    stream = bus.streams.schedules
    queues = of_firings(bus.subjects), of_due_runs(bus.subjects)
    found = [await consumer_info(bus, stream, str(queue.durable_name)) for queue in queues]
    await remove_finished(bus, stream, found)


def run() -> int:
    """Serve until SIGTERM or SIGINT; return the process's exit code (see `headrace.service`)."""
    return service.run(_prepare, os.environ)


def _prepare() -> service.PreparedService:
    settings = TriggersSettings()
    return service.PreparedService(
        settings.log_options("headrace-triggers"), lambda stop: serving(settings, stop)
    )


def serving(settings: TriggersSettings, stop: service.Stop) -> AbstractAsyncContextManager[None]:
    """Run triggers for the length of the block; fail `stop` if NATS is lost for good.

    Raises:
        QuotasUnreadable: HEADRACE_QUOTAS names no file of quotas.
        PortTaken: HEADRACE_METRICS_PORT is not available.
        BusUnavailable: NATS did not answer within HEADRACE_STARTUP_TIMEOUT.
        StreamsDiffer: the streams differ from the settings.
    """
    return service.serving("triggers", TriggersReplica(settings), settings, stop)
