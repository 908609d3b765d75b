"""How tasks and their changes are encoded for Redis and its scripts.

A short task that has ended is one string, its text (``lua/packed.lua``). The first line of a text
is a JSON array: the values of the usual fields, then the names and values of others. Each other
line is an item, after ``h`` (history) or ``a`` (artifacts). JSON contains no line ends.
"""

import re
from collections.abc import Sequence

from headrace.model import json_text
from headrace.model.task import (
    AUTH_REQUIRED,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    SUBMITTED,
    WORKING,
)
from headrace_task_state.store import Fields, TaskChange, TaskRemoval

USUAL = (
    *("log", "agent", "owner", "context", "state", "time", "status", "status_generation"),
    *("generation", "sequence", "run", "submitted", "priority", "start_by"),
)
"""The fields whose values a text begins with, in this order. The scripts get this and the following
constants from here (``connection.py``)."""

_IS_USUAL = frozenset(USUAL)

MOST_BYTES = 4096
MOST_ITEMS = 64
"""Maximum size of a text, and of its history and its artifacts each."""

LETTERS = {
    SUBMITTED: b"s",
    WORKING: b"w",
    INPUT_REQUIRED: b"i",
    AUTH_REQUIRED: b"a",
    COMPLETED: b"c",
    FAILED: b"f",
    CANCELED: b"x",
    REJECTED: b"r",
}
"""What stands for a state in members of lists."""

_PLAIN_STATUS = re.compile(r'\{"state":"(\w+)","timestamp":"([^"\\]+)"\}')


def encoded(
    change: TaskChange | TaskRemoval, text: bytes | None = None
) -> tuple[bytes, bytes, bytes]:
    """Return a change as ``lua/apply.lua`` expects it: member, text, array.

    `text`: the result of `text_of`, where it is known.
    """
    key = change.key
    if isinstance(change, TaskRemoval):
        when, rest = str(change.at), ["", "", "", key.agent, "", "", [], [], []]
        gone = [key.tenant, key.task, "", "gone", "", when, *rest, "", "", [], "", 0]
        return b"", b"", json_text.encode(gone)
    if change.begins and change.ended is not None:
        text = text_of(change) if text is None else text
        if text:
            return member_of(change), text, json_text.encode(_array(change, {}, (), ()))
    history = list(map(json_text.encode, change.history))
    artifacts = list(map(json_text.encode, change.artifacts))
    array = _array(change, _stored_fields(change), history, artifacts)
    return member_of(change), b"", json_text.encode(array)


def _stored_fields(change: TaskChange) -> Fields:
    fields = change.fields
    if change.state:
        fields = {**fields, "time": str(change.time)}
        if plain := _PLAIN_STATUS.fullmatch(fields.get("status", "")):
            fields["status"] = f"{plain[1]} {plain[2]}"
    return fields


def _array(
    change: TaskChange, fields: Fields, history: Sequence[bytes], artifacts: Sequence[bytes]
) -> list[object]:
    key = change.key
    return [
        key.tenant,
        key.task,
        change.log,
        "1" if change.begins else "",
        change.state,
        str(change.time),
        "" if change.due is None else str(change.due),
        "" if change.ended is None else str(change.ended),
        change.owner,
        key.agent,
        change.context,
        change.fields["parent"] if change.begins_child else "",
        [word for pair in fields.items() for word in pair],
        [item.decode() for item in history],
        [item.decode() for item in artifacts],
        change.replaces,
        "" if change.urgency is None else str(change.urgency),
        list(map(list, change.usage)),
        change.root,
        change.copied,
    ]


def member_of(change: TaskChange) -> bytes:
    """Return the task's member in lists of owners (``lua/members.lua``); empty: on no list."""
    if (letter := LETTERS.get(change.state)) is None:
        return b""
    shard, _, digits = change.key.task.partition("-")
    return letter + change.time.to_bytes(7) + f"{shard}-".encode() + bytes.fromhex(digits)


def text_of(change: TaskChange) -> bytes:
    """Return the text of a task of which `change` is all; empty: it is too long for one."""
    if max(len(change.history), len(change.artifacts)) > MOST_ITEMS:
        return b""
    fields = _stored_fields(change)
    first = list(map(fields.get, USUAL))
    for name in fields.keys() - _IS_USUAL:
        first += name, fields[name]
    lines = [json_text.encode(first)]
    lines += [b"h" + json_text.encode(item) for item in change.history]
    lines += [b"a" + json_text.encode(item) for item in change.artifacts]
    text = b"\n".join(lines)
    return text if len(text) <= MOST_BYTES else b""


def fields_of(found: bytes | list[bytes]) -> Fields:
    """Return the fields of a text, or of a hash: its names and values in turn."""
    if isinstance(found, bytes):
        fields = _fields_in(found)
    else:
        words = [word.decode() for word in found]
        fields = dict(zip(words[::2], words[1::2], strict=True))
    # A hash takes half the memory if each of its values has at most 64 bytes.
    state, is_short, timestamp = fields.get("status", "{").partition(" ")
    if is_short and not state.startswith("{"):
        fields["status"] = f'{{"state":"{state}","timestamp":"{timestamp}"}}'
    return fields


def _fields_in(text: bytes) -> Fields:
    first = json_text.decode(text.partition(b"\n")[0])
    fields = {name: value for name, value in zip(USUAL, first, strict=False) if value is not None}
    others = first[len(USUAL) :]
    return fields | dict(zip(others[::2], others[1::2], strict=True))


def items_in(text: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the encoded items of a text: those of the history, and those of the artifacts."""
    lines = text.split(b"\n")[1:]
    history = [line[1:] for line in lines if line.startswith(b"h")]
    return history, [line[1:] for line in lines if line.startswith(b"a")]
