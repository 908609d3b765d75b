"""A key-value bucket: read and listed from its leader, changed by compare-and-set."""

import asyncio
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import NamedTuple

from nats.aio.msg import Msg

from headrace.jetstream.api import (
    Json,
    get_message,
    store,
    store_after,
    store_with_retries,
    stream_info,
    until_answered,
)
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import DirectAnswer, direct_get
from headrace.jetstream.errors import Refused
from headrace.jetstream.headers import KV_OPERATION, SEQUENCE, SUBJECT, TTL
from headrace.jetstream.purge import purge
from headrace.model.errors import BusUnavailable, HeadraceError

_ATTEMPT = 2.0
_READ_AT_ONCE = 512


class KeyChanged(HeadraceError):
    """The key was changed concurrently. Read it again."""

    code = "moved"


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a key."""

    data: bytes | None = None
    """None: the key does not exist."""
    sequence: int = 0
    """Sequence in the bucket's stream, which a change expects. 0: the key never existed."""
    written: datetime | None = field(default=None, compare=False)
    """When it was written, by NATS's clock."""


class ReplicaValue(NamedTuple):
    """A key's value in a replica of a bucket."""

    data: bytes
    sequence: int


class Bucket:
    """A key-value bucket.

    Every call waits for the election of a leader, and raises BusUnavailable if its outcome is
    unknown.
    """

    def __init__(self, bus: Bus, name: str) -> None:
        """Use the bucket `name`, which `headrace.jetstream.streams` declares."""
        self._bus, self._stream = bus, stream_of(name)
        self.prefix = subject_of(name, "")

    async def get(self, key: str) -> Value:
        """Return the value of `key`, from the leader."""
        found = await self._ask({"last_by_subj": self.prefix + key})
        return Value() if found is None else found[1]

    async def put(self, key: str, data: bytes, after: int, *, seconds: int | None = None) -> int:
        """Write the key if it is at sequence `after`, and return its new sequence.

        It expires after `seconds`; None: never.

        Raises:
            KeyChanged: The key is at another sequence.
        """
        ttl = {} if seconds is None else {TTL: str(seconds)}
        try:
            return await store_after(self._bus, self._stream, self.prefix + key, data, after, ttl)
        except Refused as refused:
            if refused.has_other_sequence:
                raise KeyChanged(f"{key} was changed concurrently") from refused
            raise

    async def overwrite(self, key: str, data: bytes, *, seconds: int) -> None:
        """Write the key unconditionally. It expires after `seconds`."""
        await store_with_retries(self._bus, self.prefix + key, data, {TTL: str(seconds)})

    async def overwrite_all(self, values: Mapping[str, bytes], *, seconds: int) -> None:
        """Write the keys as `overwrite`. Only the last one is acknowledged: it is stored last.

        For keys that are written again soon: one that the stream refuses is not noticed.
        """
        *others, (key, data) = values.items()
        ttl = {TTL: str(seconds)}

        async def write() -> None:
            for other, value in others:
                await self._bus.publish(self.prefix + other, value, headers=ttl)
            await store(self._bus, self.prefix + key, data, _ATTEMPT, ttl)

        await until_answered(self._bus, write)

    async def delete(self, key: str, *, seconds: int | None = None) -> None:
        """Delete the key. Nothing happens if it does not exist.

        The deletion marker stays unless `seconds` are given, after which it expires. If a single
        nats-server is killed later, a value is back, the last or an earlier one (2.15 keeps no
        record of the removal of what was replaced): for keys that are many, and whose owner removes
        those again.
        """
        await store_with_retries(self._bus, self.prefix + key, b"", _deletion(seconds))

    async def delete_revision(self, key: str, sequence: int, *, seconds: int | None = None) -> bool:
        """Delete the key as `delete`, if it is at `sequence`. Return whether it was."""
        subject, mark = self.prefix + key, _deletion(seconds)
        try:
            await store_after(self._bus, self._stream, subject, b"", sequence, mark)
        except Refused as refused:
            if refused.has_other_sequence:
                return False
            raise
        return True

    async def forget(self, pattern: str) -> None:
        """Remove every key that matches `pattern`, without a deletion marker."""
        await purge(self._bus, self._stream, self.prefix + pattern)

    async def under(self, pattern: str) -> list[tuple[str, Value]]:
        """Return every key that matches `pattern` (with NATS's wildcards), from the leader.

        For few keys: each costs a request.
        """
        found: dict[str, Value] = {}
        query = {"seq": 1, "next_by_subj": self.prefix + pattern}
        while (one := await self._ask(query)) is not None:
            key, value = one
            query["seq"] = value.sequence + 1
            # A key that is changed meanwhile occurs again; its last occurrence counts.
            found.pop(key, None)
            if value.data is not None:
                found[key] = value
        return list(found.items())

    async def last(self, pattern: str) -> tuple[str, Value] | None:
        """Return the key that matches `pattern` and was written last, from the leader."""
        return await self._ask({"last_by_subj": self.prefix + pattern})

    async def keys(self) -> list[str]:
        """Return every key, from the leader. Some may just have been deleted."""
        found: list[str] = []
        query = {"subjects_filter": f"{self.prefix}>", "offset": 0}
        while True:
            answer = await until_answered(
                self._bus, lambda: stream_info(self._bus, self._stream, query, _ATTEMPT)
            )
            state = answer["state"]
            page: dict[str, int] = state.get("subjects") or {}
            found += [subject.removeprefix(self.prefix) for subject in page]
            query["offset"] = len(found)
            if not page or len(found) >= state["num_subjects"]:
                return found

    async def copy(
        self, pattern: str = ">", since: datetime | None = None, *, is_latest: bool = False
    ) -> dict[str, ReplicaValue]:
        """Return every key that matches and its value, as `entries` does without deletions."""
        entries = await self.entries(pattern, since, is_latest=is_latest)
        return {key: copied for key, copied in entries.items() if copied is not None}

    async def entries(
        self,
        pattern: str = ">",
        since: datetime | None = None,
        *,
        after: int = 0,
        is_latest: bool = False,
    ) -> dict[str, ReplicaValue | None]:
        """Return every key that matches and its value, from any replica: many in one answer.

        None in place of a value: the key has a deletion marker. With `since`, only keys that were
        written since then; with `after`, only those with a later sequence. The replica may lag
        behind the leader; with `is_latest` it is read on until it has all that the leader has.
        """
        found, place = dict[str, ReplicaValue | None](), after
        start: Json = {"seq": after + 1} if since is None else {"start_time": since.isoformat()}
        while True:
            query = {
                "batch": _READ_AT_ONCE,
                "next_by_subj": f"{self.prefix}{pattern}",
                **start,
            }
            page = await until_answered(self._bus, partial(self._page, query))
            for key, sequence, copied in page.messages:
                found[key], place = copied, sequence
                start = {"seq": sequence + 1}
            if page.complete and not page.pending:
                if not is_latest or await self._ends_at(place, pattern, since):
                    return found
                await asyncio.sleep(self._bus.timing.retry)

    async def _ends_at(self, place: int, pattern: str, since: datetime | None) -> bool:
        """Return whether the leader has nothing of a copy beyond sequence `place`."""
        last = await self._ask({"last_by_subj": self.prefix + pattern})
        if last is None or last[1].sequence <= place:
            return True
        written = last[1].written
        return since is not None and written is not None and written < since

    async def _page(self, query: Json) -> DirectAnswer[tuple[str, int, ReplicaValue | None]]:
        page = await direct_get(self._bus, self._stream, query, self._copied)
        if not (page.complete or page.messages):
            raise BusUnavailable(f"the bucket {self.prefix} does not answer")
        return page

    def _copied(self, msg: Msg) -> tuple[str, int, ReplicaValue | None]:
        headers = msg.headers or {}
        key, sequence = headers[SUBJECT].removeprefix(self.prefix), int(headers[SEQUENCE])
        return key, sequence, None if KV_OPERATION in headers else ReplicaValue(msg.data, sequence)

    async def _ask(self, query: Json) -> tuple[str, Value] | None:
        message = await until_answered(
            self._bus, lambda: get_message(self._bus, self._stream, query, _ATTEMPT)
        )
        if message is None:
            return None
        # A deletion is the only message without a body.
        data = b64decode(message["data"]) if message.get("data") else None
        key = message["subject"].removeprefix(self.prefix)
        written = datetime.fromisoformat(message["time"])
        return key, Value(data, int(message["seq"]), written)


def stream_of(name: str) -> str:
    """Return the name of a bucket's stream."""
    return f"KV_{name}"


def subject_of(name: str, key: str) -> str:
    """Return the subject of `key` in the bucket `name`."""
    return f"$KV.{name}.{key}"


def _deletion(seconds: int | None) -> dict[str, str]:
    """Return the headers of a deletion marker that expires after `seconds`."""
    return {KV_OPERATION: "DEL"} | ({} if seconds is None else {TTL: str(seconds)})
