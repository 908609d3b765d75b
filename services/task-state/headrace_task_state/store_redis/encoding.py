"""How tasks and their changes are encoded for Redis and its scripts.

A short task that has ended is one string, its text (``lua/packed.lua``). The first line of a text
is a JSON array: the values of the usual fields, then the names and values of others. Each other
line is an item, after ``h`` (history) or ``a`` (artifacts). JSON contains no line ends.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Self, TypeGuard

from headrace.model import json_text
from headrace.model.change import DROP, IN, META, NEW, OUT, TEXTS
from headrace.model.task import (
    AT_WORK,
    AUTH_REQUIRED,
    CANCELED,
    COMPLETED,
    FAILED,
    FINISHED,
    INPUT_REQUIRED,
    REJECTED,
    SUBMITTED,
    WORKING,
)
from headrace_task_state.store import SUMMARY, DueList, Fields, TaskChange, TaskRemoval
from headrace_task_state.thread_rows import LONGEST_TEXT, READ_BYTES, ThreadRow, output_text
from headrace_task_state.usage import (
    COST,
    END,
    INPUT,
    MILLISECONDS,
    OUTPUT,
    REPORT,
    RUNS,
    START,
    TOKENS,
)

USUAL = (
    *("log", "agent", "owner", "context", "state", "time", "status", "status_generation"),
    *("generation", "sequence", "run", "submitted", "priority", "start_by"),
)
"""The fields whose values a text begins with, in this order."""

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

BECOME_ASCII = tuple(
    "\u00df\u0130\u0149\u017f\u01f0\u1e96\u1e97\u1e98\u1e99\u1e9a\u1e9e\u212a"
    "\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06"
)
"""Characters that are ASCII letters where case is ignored, such as ligatures, which become two."""

_SHARED = {
    "BECOME_ASCII": BECOME_ASCII,
    "USUAL": USUAL,
    "LETTERS": {state: letter.decode() for state, letter in LETTERS.items()},
    "MOST_BYTES": MOST_BYTES,
    "MOST_ITEMS": MOST_ITEMS,
    "FINISHED": dict.fromkeys(sorted(FINISHED), 1),
    "AT_WORK": dict.fromkeys(sorted(AT_WORK), 1),
    "INPUT_REQUIRED": INPUT_REQUIRED,
    "IN": IN,
    "OUT": OUT,
    "META": META,
    "DROP": DROP,
    "NEW": NEW,
    "TEXTS": TEXTS,
    "READ_BYTES": READ_BYTES,
    "LONGEST_TEXT": LONGEST_TEXT,
    "START": START,
    "REPORT": REPORT,
    "END": END,
    "RUNS": RUNS,
    "MILLISECONDS": MILLISECONDS,
    "INPUT": INPUT,
    "OUTPUT": OUTPUT,
    "TOKENS": TOKENS,
    "COST": COST,
}
"""What the fold, the projector and the scripts all name."""


def constants() -> str:
    """Return the constants of the scripts, in Lua."""
    return "".join(f"local {name} = {_in_lua(value)}\n" for name, value in _SHARED.items())


def _in_lua(value: object) -> str:
    match value:
        case dict():
            return f"{{ {', '.join(f'{name} = {_in_lua(one)}' for name, one in value.items())} }}"
        case tuple():
            return f"{{ {', '.join(map(_in_lua, value))} }}"
        case _:
            return repr(value)


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
        gone = [key.tenant, key.task, "", "gone", "", when, *rest, "", "", [], "", 0, []]
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
        _row_words(change, is_whole=not fields),
    ]


def _row_words(change: TaskChange, *, is_whole: bool) -> list[object]:
    """Return the change of the task's row in its thread, as ``lua/listings.lua`` expects it.

    `is_whole`: the task's text is sent, so the output of its run is known here.
    """
    if SUMMARY in change.fields:
        return ["summary"]
    row = change.row
    if row is None or change.begins_child:
        return []
    said, shows = row.said, row.shows_output
    if is_whole and shows:
        said, shows = _output_of(change) or said, False
    return [*map(str, (row.created, row.changed, row.answered)), row.title, said, shows]


def _output_of(change: TaskChange) -> str:
    """Return the text of the last run's output, of which `change` is all."""
    return output_text(change.artifacts, int(change.fields.get("run", 0)))


def row_of(change: TaskChange) -> ThreadRow | None:
    """Return the row of a task of which `change` is all. None: it has none."""
    if change.row is None:
        return None
    output = _output_of(change) if change.row.shows_output else ""
    return change.row.applied(None, change.key.agent, output)


def row_in(words: bytes) -> ThreadRow:
    """Return a stored row."""
    agent, created, changed, answered, title, text = json_text.decode(words)
    return ThreadRow(agent, int(created), int(changed), int(answered), title, text)


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


_MOST = 1000
"""Maximum tasks: Lua's unpack is limited to about 8,000 values."""

_USAGE_WORDS = 6

type Word = bytes | str | int


class _Group:
    """Tasks of one tenant, owner and agent."""

    __slots__ = ("contexts", "listed")

    def __init__(self) -> None:
        """Start without tasks."""
        self.listed: list[Word] = []
        """Score and member of each, in lists of owners."""
        self.contexts: dict[str, list[Word]] = {}
        """Members by context."""


class NewTaskBatch:
    """Tasks that a batch adds to the view together: one command per key, not several per task.

    They are new, begin and end in the batch, and nothing else of the batch is about them. A view
    that is rebuilt from last entries consists of such tasks: commands for each of them would take
    most of Redis' time. The arguments are those of `add_together` in ``lua/listings.lua``.
    """

    def __init__(
        self, view: str, range_name: str, texts: Mapping[int, bytes] | None = None
    ) -> None:
        """Start without tasks; `view` is the prefix of the view's keys, `texts` what is known."""
        self._view, self._range = view, range_name
        self.texts = dict(texts or {})
        """Results of `text_of` by position, also of tasks that are too long to be added together.
        """
        self.places: set[int] = set()
        """Positions of the tasks in the batch."""
        self._texts: list[Word] = []
        self._ended: list[Word] = []
        self._urgent: list[Word] = []
        self._groups = defaultdict[tuple[str, str, str], _Group](_Group)
        """By tenant, owner and agent."""
        self._usage: list[Word] = []
        self._rows: list[object] = []
        self._summaries = defaultdict[tuple[str, str], list[Word]](list)
        """Agents and tasks by tenant and owner."""

    @classmethod
    def of(cls, changes: Sequence[TaskChange | TaskRemoval], view: str, range_name: str) -> Self:
        """Return those of a batch's `changes` that can be added together."""
        found = cls(view, range_name)
        whole = [(at, one) for at, one in enumerate(changes) if _is_whole(one)]
        if not whole:
            return found
        times = Counter([(one.key.tenant, one.key.task) for one in changes])
        for at, change in whole[:_MOST]:
            if times[change.key.tenant, change.key.task] == 1:
                text = found.texts[at] = text_of(change)
                if text:
                    found.places.add(at)
                    found._add(change, text)
        return found

    def _add(self, change: TaskChange, text: bytes) -> None:
        tenant, agent, task = change.key
        name, member = f"{tenant}:{task}", member_of(change)
        self._texts += (f"{self._view}t:{name}", text)
        self._ended += (change.ended or 0, name)
        if change.urgency is not None:
            self._urgent += (change.urgency, name)
        group = self._groups[tenant, change.owner, agent]
        group.listed += (b"0", member)
        group.contexts.setdefault(change.context, []).append(member)
        if change.usage:
            self._usage += (tenant, task, change.owner, agent, change.log)
            self._usage.append(json_text.encode(list(map(list, change.usage))))
        if SUMMARY in change.fields:
            self._summaries[tenant, change.owner].append(f"{agent}:{task}")
        elif (row := row_of(change)) is not None:
            words = [row.agent, str(row.created), str(row.changed), str(row.answered), *row[4:]]
            self._rows.append([tenant, change.owner, change.context, task, words])

    def script_args(self) -> list[Word]:
        """Return the arguments for the script."""
        words: list[Word] = [len(self._texts) // 2, *self._texts]
        sets = self._sets()
        words.append(len(sets))
        for key, scored in sets.items():
            words += (key, len(scored), *scored)
        words.append(len(self._groups))
        for (tenant, owner, agent), group in self._groups.items():
            words += (tenant, owner, agent, len(group.contexts))
            for context, members in group.contexts.items():
                key = f"{self._view}c:{tenant}:{agent}:{context}"
                words += (key, len(members), *members)
        words.append(len(self._usage) // _USAGE_WORDS)
        words += (*self._usage, json_text.encode(self._rows), len(self._summaries))
        for (tenant, owner), members in self._summaries.items():
            words += (tenant, owner, len(members), *members)
        return words

    def _sets(self) -> dict[str, list[Word]]:
        """Return the scores and members of sorted sets, by key."""
        sets = defaultdict[str, list[Word]](list)
        for (tenant, owner, agent), group in self._groups.items():
            sets[f"{self._view}l:{tenant}:{owner}:{agent}"] = group.listed
            sets[f"{self._view}l:{tenant}::{agent}"] += group.listed
        if self._ended:
            sets[f"{self._view}{DueList.ENDED}:{self._range}"] = self._ended
        if self._urgent:
            sets[f"{self._view}{DueList.SUMMARIES}:{self._range}"] = self._urgent
        return sets


def _is_whole(change: TaskChange | TaskRemoval) -> TypeGuard[TaskChange]:
    return (
        isinstance(change, TaskChange)
        and change.begins
        and change.ended is not None
        and change.state in LETTERS
        and not (change.root or change.copied or change.begins_child or change.replaces)
    )
