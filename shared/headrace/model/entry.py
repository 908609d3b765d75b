"""Entries: the stored messages of a log, each with events and headers that describe them.

The headers contain what most readers need from a log's tail (its owner, its length, its state), so
that they don't parse events for it.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import orjson

from headrace.model import json_text
from headrace.model.change import IllFormedEvent, read_change
from headrace.model.errors import NewerVersion, UndecodableMessage
from headrace.model.events import Json
from headrace.model.task import BARE_MESSAGE, FINISHED, RUN_OVER, STATES, WORKING

CONTRACT_VERSION: Final = "2"
"""Version of the bus contract that this code writes, unless the setting requires the next one."""

NEXT_VERSION: Final = "3"
"""The version after it: what the next release may add are headers and members of events."""

READABLE = (CONTRACT_VERSION, NEXT_VERSION)
"""The versions that this code reads."""

RANGE: Final = f"{CONTRACT_VERSION} to {NEXT_VERSION}"
"""The same for people."""

VERSION = "Headrace-Version"
LOG = "Headrace-Log"
GENERATION = "Headrace-Generation"
WRITER = "Headrace-Writer"
STATE = "Headrace-State"
RUN = "Headrace-Run"
ATTEMPT = "Headrace-Attempt"
OWNER = "Headrace-Owner"
CHECKPOINT = "Headrace-Checkpoint"
STEP = "Headrace-Step"
FEEDBACK = "Headrace-Feedback"
"""Header of an end that stands in the log once more: what a person thinks of the task. Readers of
entries ignore it."""

DEEPEST = 200
"""Maximum nesting depth of an event's objects and arrays."""

_STATED = {state.encode(): state for state in (*STATES, BARE_MESSAGE)}

_WRITABLE = 254
_DIGITS = 15
"""Maximum digits of a number in a header, the limit of other JSON readers."""

_BLOCK = re.compile(
    rb"NATS/1\.0\r\n"
    rb"Headrace-Version: [23]\r\n"
    rb"Headrace-Log: ([0-9a-z]{4,16})\r\n"
    rb"Headrace-Generation: ([0-9]{1,15})\r\n"
    rb"Headrace-Writer: ([A-Za-z0-9._-]+)\r\n"
    rb"Headrace-State: ([A-Z_]+)\r\n"
    rb"Headrace-Run: ([0-9]{1,15})\r\n"
    rb"(?:Headrace-Attempt: ([0-9]{1,15})\r\n)?"
    rb"(?:Headrace-Owner: ([A-Za-z0-9_-]{1,200})\r\n)?"
    rb"(?:N[A-Za-z-]+: [^\r\n]*\r\n)*\r\n"
)
"""The headers of nearly every entry, as `Stamp.headers` writes them, followed by NATS's headers."""

LOG_ID = re.compile(r"[0-9a-z]{4,16}")
_NOT_EMPTY = re.compile(r".+")
OWNER_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,200}")
"""A token. Keys of the view join owners with other names, and a worker writes what it likes."""


class Stamp(NamedTuple):
    """The headers of an entry."""

    log: str
    """The log id, minted with generation 1."""
    generation: int
    """Generation of the entry's first event."""
    writer: str
    """Id of the writer: one per attempt, per gateway request or per sweep."""
    state: str
    """The task's state after the entry."""
    run: int
    """Generation of the input that the entry belongs to."""
    attempt: int = 0
    """Attempt that wrote it, from 1. 0: not written by a worker."""
    owner: str | None = None
    """The owner, as a subject token: on generation 1, and on entries of workers that end a run."""
    checkpoint: str | None = None
    """JSON of at most 8 KB that the agent saved with these events."""
    step: str | None = None
    """JSON of a `StepRecord` that the entry's last event stands for."""

    def headers(self, version: str = CONTRACT_VERSION) -> dict[str, str]:
        """Return the headers that `parse_stamp` reads back, of a readable `version`."""
        headers = {
            VERSION: version,
            LOG: self.log,
            GENERATION: str(self.generation),
            WRITER: self.writer,
            STATE: self.state,
            RUN: str(self.run),
        }
        if self.attempt:
            headers[ATTEMPT] = str(self.attempt)
        if self.owner is not None:
            headers[OWNER] = self.owner
        if self.checkpoint is not None:
            headers[CHECKPOINT] = self.checkpoint
        if self.step is not None:
            headers[STEP] = self.step
        return headers


@dataclass(slots=True, init=False)
class Entry:
    """A parsed stored message: its stamp, its events and its position in the stream.

    Not frozen, because each field of a frozen object is set by a call. Nothing changes an entry.
    """

    stamp: Stamp
    lines: list[bytes]
    """One A2A v1.0 ``StreamResponse`` in ProtoJSON per line, in order."""
    sequence: int
    """The message's sequence in its stream."""
    time: str
    """When NATS stored it, RFC 3339."""
    generation: int = field(init=False, repr=False, compare=False)
    """Generation of the first event."""
    last_generation: int = field(init=False, repr=False, compare=False)
    """Generation of the last event."""

    def __init__(self, stamp: Stamp, lines: list[bytes], sequence: int, time: str) -> None:
        """Hold the message's parts."""
        self.stamp, self.lines, self.sequence, self.time = stamp, lines, sequence, time
        # Every reader of every entry needs these, several times.
        self.generation = first = stamp.generation
        self.last_generation = first + len(lines) - 1

    def parsed(self) -> Iterator[Json]:
        """Parse the events one by one, at about 1 µs each.

        Parsed events are not kept: they take eight times the memory of their lines, and the garbage
        collector visits each of their parts. The busiest readers need only the lines.
        """
        return map(json_text.decode, self.lines)

    @property
    def events(self) -> list[Json]:
        """The events, parsed on each access. `parsed` costs less for many events."""
        return list(self.parsed())

    @property
    def ends_run(self) -> bool:
        """Whether the run is over after this entry."""
        return self.stamp.state in RUN_OVER

    @property
    def ends_task(self) -> bool:
        """Whether nothing can follow this entry."""
        return self.stamp.state in FINISHED


def parse_stamp(subject: str, headers: Mapping[str, str] | None) -> Stamp:
    """Return the stamp in the `headers` of a message on `subject`.

    Raises:
        NewerVersion: It has a later contract version than this code reads.
        UndecodableMessage: A header is missing or malformed.
    """
    version = headers.get(VERSION, "") if headers else ""
    if not headers or version not in READABLE:
        reason = f"{VERSION} is {version or 'missing'}, not {' or '.join(READABLE)}"
        raise (NewerVersion if is_newer(version) else UndecodableMessage)(subject, reason)
    try:
        return Stamp(
            log=_matching(LOG_ID, headers[LOG]),
            generation=_number(headers[GENERATION], least=1),
            writer=_matching(_NOT_EMPTY, headers[WRITER]),
            state=_state(headers[STATE]),
            run=_number(headers[RUN], least=1),
            attempt=_number(headers.get(ATTEMPT, "0"), least=0),
            owner=_matching(OWNER_TOKEN, headers[OWNER]) if OWNER in headers else None,
            checkpoint=headers.get(CHECKPOINT),
            step=headers.get(STEP),
        )
    except (KeyError, ValueError) as error:
        raise UndecodableMessage(subject, f"bad header: {error}") from None


def read_stamp(
    subject: str, block: bytes, headers: Callable[[], Mapping[str, str] | None]
) -> Stamp:
    """Like `parse_stamp`, from the raw header block; `headers` is called only if necessary.

    It takes a tenth of the time of `parse_stamp`, and a third of that for the further entries of an
    attempt.

    Raises:
        UndecodableMessage: As `parse_stamp`.
    """
    at = block.find(_FIRST)
    end = block.find(b"\r\n", at + len(_FIRST))
    rest = block.find(_NATS, end)
    key = block[:at] + block[end:rest]
    known = _KNOWN.get(key)
    if known is not None and block.find(_OWN, rest) < 0:
        number = block[at + len(_FIRST) : end]
        if number.isdigit() and len(number) <= _DIGITS and (first := int(number)):
            log, _, writer, state, run, attempt, owner, *_ = known
            # Its own constructor, which is a function in Python, takes three times as long.
            return tuple.__new__(
                Stamp, (log, first, writer, state, run, attempt, owner, None, None)
            )
    stamp = _match_stamp(block)
    if stamp is None:
        return parse_stamp(subject, headers())
    # The entries before a run's first attempt have no equals.
    if stamp.attempt and 0 < at < end < rest:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = stamp
    return stamp


_FIRST = f"\r\n{GENERATION}: ".encode()
_NATS = b"\r\nNats-"
_OWN = b"Headrace-"

_MOST_KNOWN = 4096

_KNOWN: dict[bytes, Stamp] = {}
"""Stamps by the headers that they were read from, without generation and NATS's own: the entries of
an attempt differ in nothing else, and matching them all took half of the time of reading a token.
About 2 MB at most."""


def _match_stamp(block: bytes) -> Stamp | None:
    match = _BLOCK.fullmatch(block)
    if match is None:
        return None
    log, generation, writer, state, run, attempt, owner = match.groups()
    first, input_at, stated = int(generation), int(run), _STATED.get(state)
    if stated is None or not (first and input_at):
        return None
    return Stamp(
        log.decode(),
        first,
        writer.decode(),
        stated,
        input_at,
        int(attempt) if attempt else 0,
        None if owner is None else owner.decode(),
    )


def stating(version: str) -> dict[str, str]:
    """Return the headers of a message of `version` that is no entry: a request, or its answer."""
    return {VERSION: version}


def check_version(subject: str, headers: Mapping[str, str] | None) -> None:
    """Return if this code reads messages of the version in `headers`; it may be left out.

    Run requests, and task state's requests and answers, have the versions of logs, and the setting
    that says which one is written.

    Raises:
        NewerVersion: It is a later one; the reason names it and those that are read.
        UndecodableMessage: It is none.
    """
    version = (headers or {}).get(VERSION, CONTRACT_VERSION)
    if version not in READABLE:
        error = NewerVersion if is_newer(version) else UndecodableMessage
        raise error(subject, f"{VERSION} is {version}; this release reads {RANGE}")


def is_newer(version: str) -> bool:
    """Return whether `version` of the bus contract is later than all that this code reads."""
    try:
        return _number(version, least=0) > int(NEXT_VERSION)
    except ValueError:
        return False


def _number(text: str, *, least: int) -> int:
    # int() alone would accept signs, spaces, underscores and digits of other scripts.
    is_short = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    if not is_short or (number := int(text)) < least:
        raise ValueError(f"{text!r} is not a number of at least {least}")
    return number


def _state(text: str) -> str:
    if text not in STATES and text != BARE_MESSAGE:
        raise ValueError(f"{text!r} is not a state")
    return text


def _matching(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise ValueError(f"{text!r} does not match {pattern.pattern}")
    return text


def parse_entry(
    subject: str, headers: Mapping[str, str] | None, data: bytes, sequence: int, time: str
) -> Entry:
    """Return the entry in a stored message.

    All readers must agree on what is an entry and what is skipped. So the body is parsed here, once
    per message (about 1 µs per event), even if the reader does not need it parsed.

    Raises:
        UndecodableMessage: The headers do not parse, a line is not a JSON object, or headers and
            events contradict each other about the end of the task.
    """
    return parse_body(subject, parse_stamp(subject, headers), data, sequence, time)


def parse_body(subject: str, stamp: Stamp, data: bytes, sequence: int, time: str) -> Entry:
    """Return the entry with `stamp` and the body `data`.

    Raises:
        UndecodableMessage: A line is not a JSON object, or `stamp` and the events contradict each
            other about the end of the task.
    """
    entry = Entry(stamp, _lines(subject, data), sequence, time)
    # Most are artifact updates, each freed before the next is parsed: half the cost of keeping all.
    try:
        others = [
            (generation, event)
            for generation, line in enumerate(entry.lines, entry.generation)
            if "artifactUpdate" not in (event := _parsed(subject, line))
        ]
    except UndecodableMessage:
        if (mended := json_text.without_halves(data)) == data:
            raise
        return parse_body(subject, stamp, mended, sequence, time)
    if others or stamp.state in RUN_OVER:
        _check_state(subject, stamp, entry.last_generation, others)
    return entry


def parse_lines(
    subject: str,
    stamp: Stamp,
    data: bytes,
    text_of: Callable[[bytes, int], str | None] | None = None,
) -> tuple[list[bytes], list[Json | str]]:
    """Return the lines and the events of the entry with `stamp` and the body `data`.

    For a reader that needs all events parsed. For a line whose text `text_of` can return without
    parsing, that text replaces the event.

    Raises:
        UndecodableMessage: As `parse_body`.
    """
    lines, first = _lines(subject, data), stamp.generation
    found: list[Json | str]
    try:
        if text_of is None:
            found = [_parsed(subject, line) for line in lines]
        else:
            texts = map(text_of, lines, itertools.count(first))
            found = [
                _parsed(subject, line) if text is None else text
                for text, line in zip(texts, lines, strict=True)
            ]
    except UndecodableMessage:
        if (mended := json_text.without_halves(data)) == data:
            raise
        return parse_lines(subject, stamp, mended, text_of)
    others = [
        (generation, event)
        for generation, event in enumerate(found, first)
        if type(event) is dict and "artifactUpdate" not in event
    ]
    if others or stamp.state in RUN_OVER:
        _check_state(subject, stamp, first + len(lines) - 1, others)
    return lines, found


def _check_state(subject: str, stamp: Stamp, last: int, others: Sequence[tuple[int, Json]]) -> None:
    """Check that the events leave the task in the state of `stamp`, and end it at most at last.

    Readers of headers and readers of events would not agree whether the task goes on, and who acts.
    `last` is the generation of the last event, `others` are the events that are no artifact
    updates, with their generations.
    """
    if len(others) == 1 and stamp.state not in RUN_OVER and _begins_as(stamp, others[0][1]):
        return  # Nearly all that are not WORKING; a form that is wrong would make no difference.
    at, stated = 0, ""
    for generation, event in others:
        if state := _state_in(event, generation, stated):
            at, stated = generation, state
            if state in _STOPS:
                break
    # Without a status the task stays as it was, which is not known here; but no run ends silently.
    agrees = stated == stamp.state if stated else stamp.state not in RUN_OVER
    if not agrees or (stated in FINISHED and at != last):
        found = f"event {at} of those up to {last} states {stated}" if stated else "no event does"
        raise UndecodableMessage(subject, f"{STATE} states {stamp.state}, but {found}")


def _begins_as(stamp: Stamp, event: Json) -> bool:
    """Return whether `event` is a task in the state of `stamp`."""
    task = event.get("task") if "statusUpdate" not in event else None
    status = task.get("status") if type(task) is dict else None
    return type(status) is dict and status.get("state") == stamp.state


_ILL_FORMED = "an ill-formed end"

_STOPS = FINISHED | {_ILL_FORMED}

_UNSTATED = ("", WORKING)


def _state_in(event: Json, generation: int, before: str) -> str:
    """Return the state that `event` states after state `before`; empty: it states none."""
    try:
        shown = event["statusUpdate"]["status"]["state"]
        # Most events that are no artifact updates: tokens of thoughts, for example.
        if shown == WORKING and before in _UNSTATED:
            return WORKING
    except (KeyError, TypeError):
        shown = BARE_MESSAGE if "message" in event else ""
    try:
        change = read_change(event, generation)
    except IllFormedEvent:
        # Folds skip it, but streams show it to clients, which would believe it.
        return _ILL_FORMED if type(shown) is str and shown in RUN_OVER else ""
    if change.answer is not None:
        return BARE_MESSAGE
    return "" if change.status is None else str(change.status["state"])


def _lines(subject: str, data: bytes) -> list[bytes]:
    if not data.isascii():
        # Lines are sent to clients as they are, and not every writer is ours.
        data = json_text.one_line(data)
    if b"\r" in data:
        # JSON allows it between tokens, but in server-sent events it would end a line.
        raise UndecodableMessage(subject, "the body contains a carriage return")
    # A list that `split` makes has room for 12 lines, and most entries have one.
    return data.split(b"\n") if b"\n" in data else [data]


def _parsed(subject: str, line: bytes) -> Json:
    try:
        # As `json_text.decode`, without its call for each token.
        event = json_text.decode(line) if json_text.EXACT in line else orjson.loads(line)  # noqa: TID251
    except orjson.JSONDecodeError as error:
        raise UndecodableMessage(subject, f"the body is not JSON: {error}") from None
    if type(event) is not dict:
        raise UndecodableMessage(subject, "the body is not one JSON object per line")
    # A level takes at least two bytes, so most lines are too short to need the check.
    if len(line) > 2 * DEEPEST and line.count(b"{") + line.count(b"[") > DEEPEST:
        _check_depth(subject, event)
    return event


def _check_depth(subject: str, event: Json) -> None:
    # orjson reads 1024 levels but writes 254. Parsed events must fit into answers.
    for key in event:
        for _ in range(_WRITABLE - DEEPEST):
            event = {key: event}
        break
    try:
        json_text.encode(event)
    except orjson.JSONEncodeError:
        raise UndecodableMessage(
            subject, f"an event is nested deeper than {DEEPEST} levels"
        ) from None
