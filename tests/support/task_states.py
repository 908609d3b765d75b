"""Replicas of task state on real servers, in this process or in separate ones."""

import asyncio
import os
import secrets
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from nats.js.errors import NoStreamResponseError

from headrace.jetstream.connection import Bus
from headrace.model.errors import StateUnavailable
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.messages import GetTask, ListTasks, TaskFound, TasksFound
from headrace.model.task import TaskKey, mint_task_id
from headrace.state_client import StateClient
from headrace_task_state.main import TaskState
from headrace_task_state.maintenance.timing import MaintenanceTiming
from headrace_task_state.settings import TaskStateSettings
from headrace_task_state.store import all_ranges
from headrace_task_state.store_redis.store import Keys, RedisStore
from tests.support.forked_process import HEADRACE, ForkedProcess, start_service
from tests.support.legal_logs import LegalLog
from tests.support.waiting import TIMEOUT, eventually

OWNER = "anonymous"

_DELETE_KEYS = """
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
    redis.call('UNLINK', key)
end
"""


def new_key(shard: int = 3, *, tenant: str = "default", agent: str = "agent") -> TaskKey:
    """Return a task that nobody knows yet."""
    return TaskKey(tenant, agent, mint_task_id(shard))


class TaskStates:
    """A fleet of its own on shared servers: its own prefixes, so its own streams and keys."""

    def __init__(self, settings: TaskStateSettings, timing: MaintenanceTiming) -> None:
        """Use `open_task_states`."""
        self.settings, self.timing = settings, timing
        """Of replicas that start from now on."""
        self.bus = Bus(settings)
        self.client = StateClient(self.bus)
        self.ranges = all_ranges(settings.event_streams)
        self.keys = Keys.of(settings.prefix, settings.stream_prefix)
        self.store_in = RedisStore(settings, self.keys, self.ranges)
        self.redis, self.reader = self.store_in.redis, self.store_in.reader
        self._stack = AsyncExitStack()

    async def start(self) -> TaskState:
        """Start a replica in this process."""
        replica = TaskState(self.settings, self.timing)
        await replica.start()
        self._stack.push_async_callback(replica.stop)
        return replica

    async def lose_view(self) -> None:
        """Delete all keys of the fleet at once, as FLUSHALL does.

        Deleted one after the other, keys of the next view would be deleted too.
        """
        await self.redis._redis.eval(_DELETE_KEYS, 0, f"{self.keys.root}*")

    async def followed(self) -> None:
        """Return when every range is applied by somebody."""

        async def followed() -> bool:
            return await self.reader.are_followed(self.ranges)

        await eventually(followed, "every range is followed")

    async def spawn(self, folder: Path, name: str) -> subprocess.Popen[bytes] | ForkedProcess:
        """Start a replica as a process that answers; it logs to ``<name>.log`` in `folder`."""
        environment = {
            "PATH": os.environ["PATH"],
            **{
                f"HEADRACE_{field.upper()}": _variable(value)
                for field, value in self.settings.model_dump(exclude_defaults=True).items()
            },
        }
        process = start_service(
            [str(HEADRACE), "task-state"], folder / f"{name}.log", environment=environment
        )
        self._stack.callback(process.wait, 60)
        self._stack.callback(process.kill)
        await eventually(lambda: _says(folder / f"{name}.log", " is ready"), f"{name} is ready")
        return process

    async def store(self, log: LegalLog, first: int = 0) -> None:
        """Store a log's entries from the `first` on, as their writers would."""
        subject = self.bus.subjects.event(log.key)

        async def is_stored(body: bytes, headers: dict[str, str]) -> bool:
            # A server that has just started takes nothing at first.
            with suppress(NoStreamResponseError):
                await self.bus.js.publish(subject, body, timeout=TIMEOUT, headers=headers)
                return True
            return False

        for stamp, body in log.entries[first:]:
            await eventually(partial(is_stored, body, stamp.headers()), "the entry is stored")

    async def get(self, key: TaskKey, **query: object) -> TaskFound:
        """Ask for a task as its owner, until task state can tell."""
        return await _wait_for(lambda: self.get_now(key, **query))

    async def get_now(self, key: TaskKey, **query: object) -> TaskFound:
        """Ask for a task as its owner, once."""
        request = {"tenant": key.tenant, "owner": OWNER, "task": key.task, **query}
        return await self.client.get(GetTask.model_validate(request))

    async def list(self, **query: object) -> TasksFound:
        """Ask for a list until task state can tell: a slow machine may leave its view behind."""
        return await _wait_for(lambda: self.list_now(**query))

    async def list_now(self, **query: object) -> TasksFound:
        """Ask for a list, once."""
        request = {"tenant": "default", "owner": OWNER, "include_artifacts": True, **query}
        return await self.client.list(ListTasks.model_validate(request))

    async def list_without_retries(self) -> TasksFound:
        """Ask for a list, once, without waiting until the view has caught up."""
        request = ListTasks(tenant="default", owner=OWNER)
        return await StateClient(self.bus, retry_seconds=0).list(request)

    async def listed(self, **query: object) -> dict[str, Json]:
        """Return every task of a list, by id, asking for page after page until one comes."""
        found: dict[str, Json] = {}
        token = ""
        while True:
            page = await self.list(page_token=token, **query)
            found |= {task["id"]: task for task in page.tasks}
            if not (token := page.next_page_token):
                assert len(found) == page.total_size
                return found

    async def close(self) -> None:
        """End all replicas and hang up."""
        await self._stack.aclose()
        await self.redis.close()
        await self.bus.close()


@asynccontextmanager
async def open_task_states(
    nats_url: str, redis_url: str, timing: MaintenanceTiming | None = None, /, **settings: object
) -> AsyncIterator[TaskStates]:
    """Yield a fleet without replicas yet."""
    name = f"t{secrets.token_hex(4)}"
    given = {"nats_url": nats_url, "redis_url": redis_url, "prefix": name, "stream_prefix": name}
    fleet = TaskStates(
        TaskStateSettings.model_validate({**given, **settings}), timing or MaintenanceTiming()
    )
    try:
        await fleet.bus.connect("test")
        yield fleet
    finally:
        await fleet.close()


async def _wait_for[T](ask: Callable[[], Awaitable[T]]) -> T:
    async with asyncio.timeout(TIMEOUT):
        while True:
            with suppress(StateUnavailable):
                return await ask()


def _variable(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


async def _says(log: Path, what: str) -> bool:
    return what in await asyncio.to_thread(log.read_text)


def folded(log: LegalLog, history_length: int | None = None) -> Json:
    """Return the Task that a log's fold is, with its last messages."""
    fold = TaskFold()
    for entry in log.parsed():
        fold.apply_entry(entry)
    return fold.task(history_length)
