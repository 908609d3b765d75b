"""Questions to a stream's leader that concern more than one log."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from headrace.jetstream.connection import Bus
from headrace.log.read import LEADER_TIMEOUT
from headrace.model.errors import BusUnavailable

PATIENCE = 2.0
"""Seconds after which a question is not asked again; whoever waits for the answer gives up soon."""

_NOT_FOUND = 10037
_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class StreamState:
    """A stream as its leader knows it."""

    origin: str
    """When it was made; another stream of the same name has another origin."""
    last: int
    """Sequence of its last message, which may be gone; 0: it never had one."""


async def stream_state(bus: Bus, stream: str) -> StreamState:
    """Return the state of `stream`.

    Raises:
        BusUnavailable: no leader answers.
    """
    answer = await _ask(bus, f"$JS.API.STREAM.INFO.{stream}", {})
    return StreamState(answer["created"], int(answer["state"]["last_seq"]))


async def server_time(bus: Bus, stream: str) -> float:
    """Return the time by the clock of the stream's leader, seconds since 1970.

    Raises:
        BusUnavailable: no leader answers.
    """
    answer = await _ask_once(bus, f"$JS.API.STREAM.INFO.{stream}", {})
    return datetime.fromisoformat(answer["ts"]).timestamp()


async def find_message(bus: Bus, stream: str, query: dict[str, Any]) -> dict[str, Any] | None:
    """Return the stored message that `query` (of ``STREAM.MSG.GET``) asks for; None: none.

    Raises:
        BusUnavailable: no leader answers.
    """
    answer = await _ask(bus, f"$JS.API.STREAM.MSG.GET.{stream}", query)
    return answer.get("message")


async def _ask(bus: Bus, subject: str, query: dict[str, Any]) -> dict[str, Any]:
    """Ask until there is a leader that answers, for as long as an election takes at most."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        try:
            return await _ask_once(bus, subject, query)
        except BusUnavailable:
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(_PAUSE)


async def _ask_once(bus: Bus, subject: str, query: dict[str, Any]) -> dict[str, Any]:
    msg = await bus.request(subject, orjson.dumps(query), LEADER_TIMEOUT)
    answer: dict[str, Any] = orjson.loads(msg.data)
    error = answer.get("error")
    if error and error.get("err_code") != _NOT_FOUND:
        raise BusUnavailable(f"{subject}: {error.get('description')}")
    return answer
