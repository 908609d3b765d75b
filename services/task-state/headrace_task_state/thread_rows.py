"""What a list of threads shows of a task: a row, folded from the log like the task itself.

A thread is an owner's context. Its rows are those of the tasks that the owner has begun there; a
child task has none, because its parent's log contains its output. A row is written when a run
begins and when it ends, so output costs nothing.

``lua/threads.lua`` computes the same rows in Redis.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from headrace.model.change import DROP, IN, NEW, TEXTS, Change, Item
from headrace.model.events import Json

LONGEST_TEXT = 200
"""Maximum bytes of a message's text in a row."""

READ_BYTES = 1000
"""Bytes at the beginning of a text that are looked at."""

LONGEST_TITLE = 80
"""Maximum characters of a title that is made of a message."""

_SPACE = re.compile(rb"[ \t\n\v\f\r]+")


class ThreadRow(NamedTuple):
    """A task in its thread. Times are those at which NATS stored the events, us since 1970."""

    agent: str
    created: int
    changed: int
    """When its last run began or ended."""
    answered: int
    """When its last run ended, or asked the user; 0: none has."""
    title: str
    """First words of its first message; empty: that has no text."""
    text: str
    """Beginning of the last message of the user or of the agent."""


@dataclass(slots=True)
class RowChange:
    """What a batch changes in a task's row; zeros change nothing."""

    created: int = 0
    """Set if the log begins here, as is `title`."""
    changed: int = 0
    answered: int = 0
    title: str = ""
    said: str | None = None
    """Beginning of the last message of an input, or with which a run has ended. None: none came."""
    shows_output: bool = False
    """Whether a run has ended without a message: its output is shown, if it has any."""

    def applied(self, row: ThreadRow | None, agent: str, output: str) -> ThreadRow | None:
        """Return the row after this change. None: the task has no row.

        `output` is the text of the run's output, if that is shown.
        """
        if self.created:
            times = self.created, self.changed, self.answered
            return ThreadRow(agent, *times, self.title, output or self.said or "")
        if row is None:
            return None
        text = row.text if self.said is None else self.said
        answered = self.answered or row.answered
        return row._replace(changed=self.changed, answered=answered, text=output or text)


class StoredThread(NamedTuple):
    """A thread as its rows show it."""

    context: str
    first: ThreadRow
    last: ThreadRow
    """The row that was changed last."""
    state: str
    """The state of the last row's task."""
    tasks: int
    answered: int
    """The highest of all rows."""
    agents: tuple[str, ...]
    """In alphabetical order."""

    @classmethod
    def of(cls, context: str, rows: Mapping[str, ThreadRow], states: Mapping[str, str]) -> Self:
        """Return the thread of these rows, at least one, by task id."""
        last = max(rows, key=lambda task: (rows[task].changed, task))
        return cls(
            context,
            rows[min(rows, key=lambda task: (rows[task].created, task))],
            rows[last],
            states[last],
            len(rows),
            max(row.answered for row in rows.values()),
            tuple(sorted({row.agent for row in rows.values()})),
        )


def shorten(text: str) -> str:
    """Return the beginning of a text, in one line of at most `LONGEST_TEXT` bytes."""
    if len(text) <= _SHORT and text.isascii() and text.isprintable() and "  " not in text:
        return text.strip(" ")
    line = _SPACE.sub(b" ", _cut(text.encode(errors="replace"), READ_BYTES)).strip(b" ")
    return _cut(line, LONGEST_TEXT).decode()


_SHORT = 80
"""Characters up to which a text of one line is looked at as it is."""


def _cut(text: bytes, most: int) -> bytes:
    """Return at most that many bytes of UTF-8, and no part of a character."""
    return text if len(text) <= most else text[:most].decode(errors="ignore").encode()


def title_of(text: str) -> str:
    """Return the first words of a text that `shorten` returned."""
    if len(text) <= LONGEST_TITLE:
        return text
    words, _, _ = text[:LONGEST_TITLE].rpartition(" ")
    return f"{words or text[: LONGEST_TITLE - 1]}…"


def texts_in(holder: Json) -> list[str]:
    """Return the texts of a message or an artifact, without those that are files."""
    parts = holder.get("parts") or ()
    return [part["text"] for part in parts if "text" in part and not part.get("filename")]


def message_text(message: Json) -> str:
    """Return the beginning of a message's text; empty: it has none."""
    return shorten(" ".join(texts_in(message)))


def inputs_in(change: Change) -> Sequence[Json]:
    """Return the user's messages in an input."""
    return [message for _, tag, message in change.history if tag == IN and message]


def output_text(artifacts: Sequence[Item], since: int) -> str:
    """Return the beginning of the last artifact with text, of those of the run from `since` on."""
    return shorten("".join(_last_texts(artifacts, since)))


def _last_texts(artifacts: Sequence[Item], since: int) -> Iterable[str]:
    name: str | None = None
    found, following = list[str](), list[str]()
    kept = float("inf")
    """Generation up to which no attempt has discarded output."""
    for generation, tag, value, *_ in reversed(artifacts):
        if generation < since:
            break
        if tag == DROP:
            kept = min(kept, value)
        elif generation <= kept:
            if tag == TEXTS:
                following.insert(0, value)
                continue
            texts = texts_in(value) + following
            following = []
            if name is None and any(texts):
                name = value["artifactId"]
            if name == value["artifactId"]:
                found = texts + found
                if tag == NEW:
                    break
    return found
