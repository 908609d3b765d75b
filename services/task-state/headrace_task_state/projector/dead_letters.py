"""Sending dead letters, each once: also when a range is applied anew from its beginning."""

import asyncio
import logging
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime

from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.jetstream.headers import MESSAGE_ID, SEQUENCE
from headrace.model.errors import BusUnavailable
from headrace.model.messages import DeadLetter
from headrace.tasks.dead_letters import write_letter
from headrace_task_state.projector.consumer import Arrival

_log = logging.getLogger(__name__)

WINDOW = 60.0
"""Seconds for which JetStream is relied on to know a message id; it does for 120."""

_PAUSE = 0.5
_BATCH = 500


class DeadLetters:
    """Puts letters of one event stream into the dead-letter stream."""

    def __init__(self, bus: Bus, stream: str) -> None:
        """Send what was found in event stream `stream`."""
        self._bus, self._stream = bus, stream
        self._before: set[str] | None = None
        """Ids of the letters that were there when the first old message was found."""

    async def send(self, letter: DeadLetter, name: str = "") -> None:
        """Return once the letter is stored; nothing is stepped over before.

        It is sent once under its `name`; unless one is given, that is the message's place.
        """
        _log.warning("%s at %s: %s", letter.subject, letter.sequence, letter.reason)
        while True:
            try:
                await self._send_once(letter, name)
            except BusUnavailable as trouble:
                _log.warning("a dead letter could not be written yet: %s", trouble)
                await asyncio.sleep(_PAUSE)
            else:
                return

    async def _send_once(self, letter: DeadLetter, name: str) -> None:
        age = datetime.now(UTC) - datetime.fromisoformat(letter.at)
        is_old = bool(name) or age.total_seconds() > WINDOW
        name = f"{self._stream}.{name or letter.sequence}"
        if is_old and name in await self._sent_before():
            return
        await write_letter(self._bus, letter, name)
        if self._before is not None:
            self._before.add(name)

    async def _sent_before(self) -> set[str]:
        if self._before is None:
            self._before = await self._read_names()
        return self._before

    async def _read_names(self) -> set[str]:
        names: set[str] = set()
        query = {"batch": _BATCH, "seq": 1, "next_by_subj": self._bus.subjects.dead_letters()}
        while True:
            answer = await direct_get(self._bus, self._bus.streams.dead, query, _name)
            if not answer.complete:
                raise BusUnavailable("the dead letters can't be read")
            names |= {name for name, _ in answer.messages}
            if not answer.pending:
                return names
            query["seq"] = answer.messages[-1][1] + 1


def _name(msg: Msg) -> tuple[str, int]:
    headers = msg.headers or {}
    return headers.get(MESSAGE_ID, ""), int(headers[SEQUENCE])


BODY_MOST = 256 * 1024
"""Bytes of a body that a letter carries; base64 must fit a bus message with it."""

HEADERS_MOST = 64 * 1024
"""Characters of headers that a letter carries beside it."""

_REASON_MOST = 4096


def letter(arrival: Arrival, reason: str) -> DeadLetter:
    """Return the letter that says why `arrival` (or one event of it) was stepped over."""
    msg = arrival.msg
    if len(msg.data) > BODY_MOST:
        reason = f"{reason} (body cut from {len(msg.data)} bytes to {BODY_MOST})"
    return DeadLetter(
        reason=reason[:_REASON_MOST],
        subject=msg.subject,
        task=msg.subject.rpartition(".")[2],
        sequence=arrival.sequence,
        headers=_kept(msg.headers or {}),
        body=b64encode(msg.data[:BODY_MOST]).decode(),
        at=datetime.fromtimestamp(arrival.time / 1e9, UTC).isoformat(),
    )


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Return as many of `headers` as fit, in their order: also this came from who knows where."""
    room = HEADERS_MOST
    kept: dict[str, str] = {}
    for name, value in headers.items():
        if len(name) + len(value) <= room:
            kept[name] = value
            room -= len(name) + len(value)
    return kept
