"""A key-value bucket as its leader knows it: read, listed, and changed by compare-and-set."""

import asyncio
from base64 import b64decode
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable, HeadraceError

FORGET_AFTER = 60
"""Seconds after which the mark of a deletion goes too."""

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_OPERATION = "KV-Operation"
_TTL = "Nats-TTL"

_NOT_FOUND = 10037
_OTHER_SEQUENCE = frozenset({10071, 10164})
_ATTEMPT = 2.0
_PATIENCE = 5.0
_PAUSE = 0.05


class Moved(HeadraceError):
    """Somebody else has changed the key meanwhile: look again."""

    code = "moved"


@dataclass(frozen=True, slots=True)
class Value:
    """What a key has."""

    data: bytes | None = None
    """None: nothing, or nothing any more."""
    sequence: int = 0
    """Of the bucket's stream: what a change expects; 0: there was never anything."""
    age: float = field(default=0.0, compare=False)
    """Seconds since it was written, by NATS's clock and this machine's."""


class Bucket:
    """One bucket. Every call raises BusUnavailable if it can't be known what came of it."""

    def __init__(self, bus: Bus, name: str) -> None:
        """Use the bucket called `name`, which `headrace.jetstream.streams` declares."""
        self._bus, self._stream, self._prefix = bus, f"KV_{name}", f"$KV.{name}."

    async def get(self, key: str) -> Value:
        """Return what `key` has, as the leader knows it."""
        found = await self._ask({"last_by_subj": self._prefix + key})
        return Value() if found is None else found[1]

    async def put(self, key: str, data: bytes, behind: int, *, seconds: int | None = None) -> int:
        """Write the key, which is at sequence `behind`; return where it then is.

        It is forgotten after `seconds`; None: never.

        Raises:
            Moved: it is not there any more.
        """
        ttl = {} if seconds is None else {_TTL: str(seconds)}
        return await self._write(key, data, {_EXPECTED: str(behind), **ttl})

    async def delete(self, key: str) -> None:
        """Delete the key; one that is not there is no trouble."""
        await self._write(key, b"", {_OPERATION: "DEL", _TTL: str(FORGET_AFTER)})

    async def under(self, pattern: str) -> list[tuple[str, Value]]:
        """Return every key that fits `pattern` (with NATS's wildcards), from the leader.

        For few keys: each costs a request.
        """
        found: dict[str, Value] = {}
        query = {"seq": 1, "next_by_subj": self._prefix + pattern}
        while (one := await self._ask(query)) is not None:
            key, value = one
            query["seq"] = value.sequence + 1
            # A key that is changed meanwhile comes again: what it has last is what it has.
            found.pop(key, None)
            if value.data is not None:
                found[key] = value
        return list(found.items())

    async def keys(self) -> list[str]:
        """Return every key, as the leader knows them; some may just have been deleted."""
        found: list[str] = []
        query = {"subjects_filter": f"{self._prefix}>", "offset": 0}
        while True:
            state = (await self._info(query))["state"]
            page: dict[str, int] = state.get("subjects") or {}
            found += [subject.removeprefix(self._prefix) for subject in page]
            query["offset"] = len(found)
            if not page or len(found) >= state["num_subjects"]:
                return found

    async def _info(self, query: dict[str, Any]) -> dict[str, Any]:
        subject = f"$JS.API.STREAM.INFO.{self._stream}"
        body = orjson.dumps(query)
        answer: dict[str, Any] = orjson.loads(
            (await self._bus.request(subject, body, _ATTEMPT)).data
        )
        if error := answer.get("error"):
            raise BusUnavailable(f"{subject}: {error.get('description')}")
        return answer

    async def _write(self, key: str, data: bytes, headers: dict[str, str]) -> int:
        subject = self._prefix + key
        ack = orjson.loads((await self._bus.request(subject, data, _ATTEMPT, headers)).data)
        if (error := ack.get("error")) is None:
            return int(ack["seq"])
        if error.get("err_code") in _OTHER_SEQUENCE:
            raise Moved(f"{subject} has been changed")
        raise BusUnavailable(f"{subject}: {error.get('description')}")

    async def _ask(self, query: dict[str, Any]) -> tuple[str, Value] | None:
        """Ask until there is a leader that answers, for as long as an election takes at most."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        while True:
            try:
                return await self._ask_once(orjson.dumps(query))
            except BusUnavailable:
                if loop.time() > deadline:
                    raise
            await asyncio.sleep(_PAUSE)

    async def _ask_once(self, query: bytes) -> tuple[str, Value] | None:
        subject = f"$JS.API.STREAM.MSG.GET.{self._stream}"
        answer = orjson.loads((await self._bus.request(subject, query, _ATTEMPT)).data)
        if answer.get("error", {}).get("err_code") == _NOT_FOUND:
            return None
        if "message" not in answer:
            raise BusUnavailable(f"{subject}: {answer.get('error')}")
        message = answer["message"]
        # A deletion is the only message without a body.
        data = b64decode(message["data"]) if message.get("data") else None
        key = message["subject"].removeprefix(self._prefix)
        return key, Value(data, int(message["seq"]), _age(message["time"]))


def _age(time: str) -> float:
    return max((datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds(), 0.0)
