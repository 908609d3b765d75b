"""JetStream's API: requests, refusals, and storing messages."""

import asyncio
import secrets
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import orjson
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import Refused
from headrace.jetstream.headers import BATCH_COMMIT, BATCH_ID, BATCH_SEQUENCE, EXPECTED
from headrace.model.errors import BusUnavailable, DeniedByNats, NobodyListens
from headrace.wait_for import ELECTION, RECONNECT

type Json = dict[str, Any]

_STORE_TIMEOUT = 2.0
"""Seconds to wait for the ack of a message, once."""

_TIMEOUT = 5.0
_LEASE_NS = 3_000_000_000
"""Nanoseconds in which a follower that was heard from elects no other leader; NATS waits for 4 s or
more."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """A stream's state, from its leader."""

    origin: str
    """When it was created. Another stream with the same name has another origin."""
    last: int
    """Sequence of its last message, which may be deleted. 0: it never had one."""
    at: float
    """When that was so, by the leader's clock, seconds since 1970."""


@dataclass(frozen=True, slots=True)
class MessageToStore:
    """A message to be stored."""

    subject: str
    data: bytes
    headers: Mapping[str, str]


async def request(
    bus: Bus, operation: str, query: Json | None = None, timeout: float = _TIMEOUT
) -> Json:
    """Return JetStream's answer to `operation`, such as ``STREAM.INFO.RUNS``.

    Raises:
        Refused: the answer is an error.
        BusUnavailable: there is no answer within `timeout` seconds.
    """
    subject = f"$JS.API.{operation}"
    msg = await bus.request(subject, orjson.dumps(query) if query else b"", timeout)
    answer: Json = orjson.loads(msg.data)
    if (error := answer.get("error")) is not None:
        raise Refused(subject, error)
    return answer


async def store(
    bus: Bus, subject: str, data: bytes, timeout: float, headers: dict[str, str] | None = None
) -> int:
    """Store a message in the stream on `subject` and return its sequence.

    Raises:
        Refused: The stream refuses the message.
        BusUnavailable: No clean answer came; the message may be stored or not.
    """
    return sequence_in(subject, await bus.request(subject, data, timeout, headers))


def store_soon(bus: Bus, subject: str, data: bytes, headers: dict[str, str]) -> asyncio.Future[Msg]:
    """Send a message to the stream on `subject`, and return its answer to come: see `sequence_of`.

    It is sent before this returns, if possible.
    """
    return bus.ask(subject, data, _STORE_TIMEOUT, headers)


def sequence_of(bus: Bus, subject: str, answer: asyncio.Future[Msg]) -> int:
    """Return the sequence of a message that was stored by `Bus.ask`; `answer` is done.

    Raises:
        Refused, BusUnavailable: As `store`.
    """
    return sequence_in(subject, bus.answered(subject, answer))


def sequence_in(subject: str, msg: Msg) -> int:
    """Return the sequence of a message that was stored, from the answer to its publication.

    Raises:
        Refused, BusUnavailable: As `store`.
    """
    try:
        ack = orjson.loads(msg.data)
        if (error := ack.get("error")) is None:
            return int(ack["seq"])
        refused = Refused(subject, error)
    except (AttributeError, LookupError, TypeError, ValueError):
        raise BusUnavailable(f"{subject}: the response is not JetStream's") from None
    raise refused


async def until_answered[Answer](
    bus: Bus, ask: Callable[[], Awaitable[Answer]], timeout: float = ELECTION
) -> Answer:
    """Call `ask` until a leader answers, for at most `timeout` seconds.

    All JetStream requests for a client or a command use this function. During an election, requests
    are not answered, are refused, or find no listeners.

    Raises:
        Refused, DeniedByNats: As `ask`, if a repetition would not help.
        BusUnavailable: No leader answered, or the server was away for longer than a reconnect
            takes.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    last_answer = loop.time()
    while True:
        if bus.answers:
            last_answer = loop.time()
        try:
            return await ask()
        except BusUnavailable as error:
            if isinstance(error, DeniedByNats) or (
                isinstance(error, Refused) and not error.is_passing
            ):
                raise
            now = loop.time()
            if now > deadline or (not bus.answers and now > last_answer + RECONNECT):
                raise
        await asyncio.sleep(bus.timing.retry)


async def store_with_retries(
    bus: Bus, subject: str, data: bytes, headers: dict[str, str] | None = None
) -> int:
    """Like `store`, repeated until a leader answers. For messages that may be stored twice.

    Raises:
        Refused, BusUnavailable: As `store`.
    """
    return await until_answered(bus, lambda: store(bus, subject, data, _STORE_TIMEOUT, headers))


async def store_after(  # noqa: PLR0917 - what is stored, and where
    bus: Bus,
    stream: str,
    subject: str,
    data: bytes,
    after: int,
    headers: dict[str, str] | None = None,
) -> int:
    """Store a message once, if the last one on `subject` has sequence `after`.

    If the outcome is unknown, the request is repeated, and then the stored message is compared: it
    may be this one.

    Raises:
        Refused: The stream refuses the message, or another one is stored there
            (`has_other_sequence`).
        BusUnavailable: No leader answered in time; the message may be stored or not.
    """
    expecting = {**(headers or {}), EXPECTED: str(after)}
    storing = partial(store, bus, subject, data, _STORE_TIMEOUT, expecting)
    return await _store_once(bus, stream, subject, data, after, storing)


async def store_together_after(
    bus: Bus, stream: str, messages: Sequence[MessageToStore], after: int
) -> int:
    """Like `store_after` for the first of `messages`, and store the others behind it, or none.

    Returns:
        The sequence of the first one.
    """
    first, last = messages[0], messages[-1]

    async def storing() -> int:
        batch, expecting = {BATCH_ID: secrets.token_hex(12)}, {EXPECTED: str(after)}
        for number, one in enumerate(messages[:-1], 1):
            headers = {**one.headers, **expecting, **batch, BATCH_SEQUENCE: str(number)}
            await bus.publish(one.subject, one.data, headers=headers)
            expecting = {}
        closing = {**last.headers, **batch, BATCH_SEQUENCE: str(len(messages)), BATCH_COMMIT: "1"}
        sequence = await store(bus, last.subject, last.data, _STORE_TIMEOUT, closing)
        return sequence - len(messages) + 1

    return await _store_once(bus, stream, first.subject, first.data, after, storing)


async def _store_once(  # noqa: PLR0917 - as `store_after`
    bus: Bus,
    stream: str,
    subject: str,
    data: bytes,
    after: int,
    storing: Callable[[], Awaitable[int]],
) -> int:
    """Call `storing` until it is certain whether `data` is stored on `subject` behind `after`."""
    is_in_doubt = False

    async def attempt() -> int:
        nonlocal is_in_doubt
        try:
            return await storing()
        except BusUnavailable as error:
            if is_in_doubt and isinstance(error, Refused) and error.has_other_sequence:
                return await _stored(bus, stream, subject, data, after, error)
            is_in_doubt = is_in_doubt or not isinstance(error, NobodyListens)
            raise

    return await until_answered(bus, attempt)


async def _stored(  # noqa: PLR0917 - as `store_after`
    bus: Bus, stream: str, subject: str, data: bytes, after: int, refused: Refused
) -> int:
    """Return the sequence of the last message on `subject` if that is the one in doubt."""
    there = await get_message(bus, stream, {"last_by_subj": subject})
    if there is None or int(there["seq"]) == after:
        # The message is in flight, neither stored nor lost.
        raise BusUnavailable(str(refused))
    if b64decode(there.get("data") or "") != data:
        raise refused
    return int(there["seq"])


async def stream_info(
    bus: Bus, stream: str, query: Json | None = None, timeout: float = _TIMEOUT
) -> Json:
    """Return the leader's STREAM.INFO of a stream. Raises as `request`."""
    return await request(bus, f"STREAM.INFO.{stream}", query, timeout)


async def stream_state(bus: Bus, stream: str, timeout: float = 0.0) -> StreamState:
    """Return the state of a stream. Wait for a leader for at most `timeout` seconds.

    Raises:
        BusUnavailable: No leader answers.
    """
    answer = await until_answered(
        bus, lambda: stream_info(bus, stream, timeout=bus.timing.leader), timeout
    )
    return StreamState(answer["created"], int(answer["state"]["last_seq"]), _time_of(answer))


async def server_time(bus: Bus, stream: str) -> float:
    """Return the clock of the stream's leader, in seconds since 1970. Raises as `request`."""
    return _time_of(await stream_info(bus, stream, timeout=bus.timing.leader))


def _time_of(info: Json) -> float:
    """Return the leader's clock in a STREAM.INFO answer, in seconds since 1970."""
    return datetime.fromisoformat(info["ts"]).timestamp()


async def get_message(
    bus: Bus, stream: str, query: Json, timeout: float | None = None
) -> Json | None:
    """Return the stored message for `query`, from the leader. None: no such message.

    Raises as `request`.
    """
    try:
        answer = await request(bus, f"STREAM.MSG.GET.{stream}", query, timeout or bus.timing.leader)
    except Refused as refused:
        if refused.finds_no_message:
            return None
        raise
    message: Json = answer["message"]
    return message


async def check_empty(bus: Bus, stream: str, subject: str) -> None:
    """Return if `stream` has no message on `subject`, according to a leader with a live majority.

    A leader that was frozen or is cut off answers with old data until it is informed of its
    successor. Until then it has heard nothing new from its followers either. But once it thaws, it
    reads what they sent before they elected the successor, so it is asked a second time, a little
    later.

    Raises:
        Refused, BusUnavailable: As `request`, or a message exists, or the leader may be deposed.
    """
    if await _report_empty(bus, stream, subject):
        await asyncio.sleep(bus.timing.deposition)
        await _report_empty(bus, stream, subject)


async def _report_empty(bus: Bus, stream: str, subject: str) -> bool:
    """Return whether the leader that reports `subject` as empty has followers."""
    info = await stream_info(bus, stream, {"subjects_filter": subject}, bus.timing.leader)
    if info["state"].get("subjects"):
        raise BusUnavailable(f"{stream}: a former leader reported {subject} as empty")
    followers = (info.get("cluster") or {}).get("replicas") or []
    live = sum(follower["active"] < _LEASE_NS for follower in followers)
    if 2 * (1 + live) <= 1 + len(followers):
        raise BusUnavailable(f"{stream}: its leader has no contact with most replicas")
    return bool(followers)


async def delete_message(bus: Bus, stream: str, sequence: int) -> bool:
    """Delete a message and overwrite its bytes. Return whether it existed. Raises as `request`."""
    try:
        await request(bus, f"STREAM.MSG.DELETE.{stream}", {"seq": sequence})
    except Refused as refused:
        if refused.finds_no_message:
            return False
        raise
    return True
