"""Events of another tenant that are hostile: malformed, huge, on a subject in braces, looping.

Each ends, as a task or a dead letter, once; answers that begin further tasks come to an end; and
what the other sources begin is checked as without them.
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from nats.errors import Error as NatsError
from nats.js.api import StreamConfig
from nats.js.errors import Error as JetStreamError

from headrace.jetstream.api import stream_info
from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import MESSAGE_ID
from headrace.model.errors import BusUnavailable
from headrace.tasks.dead_letters import LetterFilter, Letters
from headrace.trigger_spec import TriggerSpec
from headrace.triggers import TriggerStore
from tests.support.background import running
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.chaos.firings import FiredTask

TENANT, OWNER = "hostile", "eve"
STREAM, SUBJECT = "CHAOS_HOSTILE", "chaos-hostile"

CHAIN_TASKS = 100
"""Tasks that answers may begin after one event; a setting of the fleet."""

SHARE = 5
"""One hostile event is published for this many others."""

_MOST = {"huge": 40, "looping": 4}
"""Events of a kind in a run: of more, the disk or the workers would be busy with nothing else."""

_RULE = {"what": "events", "stream": STREAM}
_TRIGGERS: dict[str, dict[str, Any]] = {
    "malformed": {"subject": f"{SUBJECT}.malformed"},
    "huge": {"subject": f"{SUBJECT}.huge"},
    "braced": {"subject": f"{SUBJECT}.{{a}}.{{a}}"},
    "looping": {
        "subject": f"{SUBJECT}.first",
        "text": "1 0 first",
        "answers": {"subject": f"{SUBJECT}.second", **_RULE},
    },
    "looping-back": {
        "subject": f"{SUBJECT}.second",
        "text": "1 0 second",
        "answers": {"subject": f"{SUBJECT}.first", **_RULE},
    },
}
_KINDS = [name for name in _TRIGGERS if name != "looping-back"]
_AGAIN = 0.3
_TIMEOUT = 5.0
_LOOKS = 0.5
_QUIET = 10
"""Looks in a row that find nothing in progress: a task may be about to answer."""
_SETTLES = 240.0


def kind_of(number: int) -> str:
    """Return the kind of the hostile event `number`."""
    turn, place = divmod(number, len(_KINDS))
    kind = _KINDS[place]
    return kind if turn < _MOST.get(kind, turn + 1) else "malformed"


class HostileEvents:
    """The hostile events of a run."""

    def __init__(self, bus: Bus, number: int) -> None:
        """Publish `number` events on `bus`."""
        self._bus, self._number = bus, number
        self.published = defaultdict[str, list[int]](list)
        """Places in the stream, by kind."""
        self.ids = defaultdict[str, list[str]](list)
        """Message ids, likewise."""
        self.letters = Counter[tuple[str, int | None]]()
        """Dead letters, by trigger and place in the stream."""

    async def declare(self, nodes: int) -> None:
        """Create the stream, with a copy on each of `nodes` nodes, and the triggers."""
        if not self._number:
            return
        config = StreamConfig(name=STREAM, subjects=[f"{SUBJECT}.>"], num_replicas=nodes)
        await self._bus.js.add_stream(config)
        store = TriggerStore(self._bus)
        for name, more in _TRIGGERS.items():
            spec = {"name": name, "agent": "plain", "stream": STREAM, "text": "{body.text}"}
            await store.put(TriggerSpec.model_validate(spec | more), TENANT, OWNER)

    @asynccontextmanager
    async def publishing(self, share: Callable[[], float]) -> AsyncIterator[None]:
        """Publish the events during a block, in step with `share`; at its end all are published."""
        over = asyncio.Event()
        async with running(self._publish_all(share, over)):
            yield
            await over.wait()

    async def _publish_all(self, share: Callable[[], float], over: asyncio.Event) -> None:
        number = 0
        while number < self._number:
            if number >= self._number * share():
                await asyncio.sleep(_LOOKS)
            elif await self._publish(number):
                number += 1
            else:
                await asyncio.sleep(_AGAIN)
        over.set()

    async def _publish(self, number: int) -> bool:
        """Publish an event; return whether it is stored."""
        kind, name = kind_of(number), f"hostile-{number}"
        headers = {MESSAGE_ID: name, "content-type": "application/json"}
        subject, body = self._event(kind, number)
        try:
            stored = await self._bus.js.publish(subject, body, timeout=_TIMEOUT, headers=headers)
        except (NatsError, JetStreamError, TimeoutError, OSError):
            return False
        self.published[kind].append(stored.seq)
        self.ids[kind].append(name)
        return True

    def _event(self, kind: str, number: int) -> tuple[str, bytes]:
        match kind:
            case "braced":
                return f"{SUBJECT}.{{a}}.{{a}}", json.dumps({"text": f"1 0 h{number}"}).encode()
            case "looping":
                return f"{SUBJECT}.first", b"{}"
            case "huge":
                # About as large as a letter may be, or as an event may be, with its headers.
                largest = self._bus.max_payload
                edges = (largest * 3 // 4 - 1024, largest - 4096)
                size = edges[number % 2] + number // 2 * 13 % 1000
                return f"{SUBJECT}.huge", b'{"x":"' + b"y" * (size - 8) + b'"}'
            case _:
                return f"{SUBJECT}.malformed", b"{broken \xff"[: 2 + number % 8]

    async def settle(self) -> list[str]:
        """Wait until all events have ended, and read the dead letters; return what is not over."""
        if not self._number:
            return []
        quiet = 0

        async def all_have_ended() -> bool:
            nonlocal quiet
            quiet = quiet + 1 if await self._is_quiet() else 0
            await asyncio.sleep(_LOOKS)
            return quiet >= _QUIET

        try:
            await eventually(all_have_ended, "all hostile events have ended", _SETTLES)
        except AssertionError as late:
            return [str(late)]
        async for letter in Letters(self._bus).find(LetterFilter(TENANT, kind="event")):
            trigger = (letter.content.trigger or "").rpartition("/")[2]
            self.letters[trigger, letter.content.sequence] += 1
        return []

    async def _is_quiet(self) -> bool:
        try:
            consumers = await self._bus.js.consumers_info(STREAM)
            pushes = await stream_info(self._bus, self._bus.streams.pushes)
        except (BusUnavailable, NatsError, JetStreamError):
            return False
        waiting = {(one.num_pending, one.num_ack_pending) for one in consumers}
        is_whole = len(consumers) == len(_TRIGGERS) and waiting == {(0, 0)}
        return is_whole and not pushes["state"]["messages"]

    def problems(self, tasks: Iterable["FiredTask"], unrecorded: int) -> Iterator[str]:
        """Yield where an event did not end once, or a chain of answers not in time.

        `tasks` are those of the tenant; `unrecorded` others were erased before they could be
        copied.
        """
        begun = Counter((one.trigger, one.key) for one in tasks)
        for kind in ("malformed", "huge"):
            times = Counter(self.letters[kind, place] for place in self.published[kind])
            if times.keys() - {1}:
                yield f"{kind} events have become so many letters each: {dict(times)}"
        times = Counter(begun["braced", f"id/{name}"] for name in self.ids["braced"])
        if max(times, default=1) > 1 or times[0] > unrecorded:
            yield f"braced events have begun so many tasks each: {dict(times)}"
        chains = len(self.published["looping"])
        looped = sum(number for (trigger, _), number in begun.items() if "looping" in trigger)
        if looped > chains * (1 + CHAIN_TASKS):
            yield f"{chains} chains have begun {looped} tasks"
        if looped <= chains and chains > unrecorded:
            yield f"{chains} chains have begun {looped} tasks only"
