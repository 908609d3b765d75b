"""Dead letters, each sent once, even if a range is applied again from its beginning."""

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
"""Seconds for which JetStream is relied on to deduplicate a message id; it does so for 120."""

_PAUSE = 0.5
_BATCH = 500


class DeadLetters:
    """Sends the dead letters of one event stream to the dead-letter stream."""

    def __init__(self, bus: Bus, stream: str) -> None:
        """Send letters about messages of event stream `stream`."""
        self._bus, self._stream = bus, stream
        self._before: set[str] | None = None
        """Ids of the letters that were stored when the first old message was found."""

    async def send(self, letter: DeadLetter, name: str = "") -> None:
        """Store the letter and return; no message is skipped before its letter is stored.

        A letter is sent once per `name`, which defaults to the message's place.
        """
        _log.warning("%s at %s: %s", letter.subject, letter.sequence, letter.reason)
        while True:
            try:
                await self._send_once(letter, name)
            except BusUnavailable as error:
                _log.warning("could not write a dead letter; retrying: %s", error)
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
"""Maximum bytes of a body in a letter; encoded in base64, it must fit a bus message."""

HEADERS_MOST = 64 * 1024
"""Maximum characters of headers in a letter."""

_REASON_MOST = 4096


def letter(arrival: Arrival, reason: str) -> DeadLetter:
    """Return the letter for `arrival`, or one event of it, which was skipped for `reason`."""
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
    """Return as many of `headers` as fit, in their order; they come from an untrusted source."""
    room = HEADERS_MOST
    kept: dict[str, str] = {}
    for name, value in headers.items():
        if len(name) + len(value) <= room:
            kept[name] = value
            room -= len(name) + len(value)
    return kept
