"""The messages of a thread, merged from its runs.

A client sends its copy of the conversation with each run. A copy may be older than the log, for
example because the client's stream broke, so it never replaces what the fleet's agents emitted.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

import orjson

from headrace.model import json_text
from headrace.model.a2ui import OPERATIONS
from headrace.model.events import Json
from headrace_gateway.protocols.agui.surfaces import changed
from headrace_gateway.protocols.agui.view import ClientMessage, Held, HeldActivity, View

_CONVERSATION = frozenset({"system", "developer", "user", "assistant", "tool"})
"""Roles that every client sends again; activities and reasoning are left out by some."""


class ThreadMessages:
    """Each message of a thread once, in the order in which it first appeared."""

    def __init__(self) -> None:
        """Start without messages."""
        self._messages: dict[str, Json] = {}
        self._emitted: set[str] = set()

    def __iter__(self) -> Iterator[Json]:
        """Yield them where clients hold them: a result after its call, though a later run's."""
        results = self._results()
        placed = {result["id"] for found in results.values() for result in found}
        for key, message in self._messages.items():
            if key not in placed:
                yield message
                yield from results.get(key, ())

    def _results(self) -> dict[str, list[Json]]:
        """Return the results of each message's calls; of several with a call, the first's."""
        callers: dict[str, str] = {}
        results: dict[str, list[Json]] = {}
        for key, message in self._messages.items():
            for call in message.get("toolCalls") or ():
                callers.setdefault(call["id"], key)
        for message in self._messages.values():
            if message["role"] == "tool" and (caller := callers.get(message["toolCallId"])):
                results.setdefault(caller, []).append(message)
        return results

    def add(self, view: View) -> None:
        """Add the messages of a client that has read the next run.

        A message with a known id replaces the known one. But what a client has sent replaces no
        message of the agent's, and adds none that repeats the thread's under another id.
        """
        repeated = self._repeated_in(view)
        for key, held in view.messages.items():
            if not _is_sent(held):
                self._emitted.add(key)
            elif key in self._emitted or key in repeated:
                continue
            self._messages[key] = self._whole(key, held)

    def merged(self, view: View) -> list[Json]:
        """Take the last run's `view`, and return all messages."""
        self.add(view)
        return list(self)

    def corrected(self, view: View) -> list[Json]:
        """Return the messages of `view`, with the thread's instead of copies of the agent's."""
        return [
            self._messages[key]
            if _is_sent(held) and key in self._emitted
            else self._whole(key, held)
            for key, held in view.messages.items()
        ]

    def _whole(self, key: str, held: Held) -> Json:
        """Return the message, with the earlier runs' surface if it only changes that."""
        shown, known = held.shown(), self._messages.get(key)
        if not isinstance(held, HeldActivity) or not held.is_change or known is None:
            return shown
        with suppress(ValueError):  # The surface has been deleted.
            return {**shown, "content": changed(known["content"], shown["content"][OPERATIONS])}
        return known

    def _repeated_in(self, view: View) -> set[str]:
        """Return the ids of messages that repeat the thread's, from a client that renews ids.

        That is certain only if the conversation that the client has sent begins with the whole
        thread and goes on: who says the same again in a thread must not be taken for a repetition.
        """
        before = list(_conversation(self))
        sent = list(
            _conversation(held.shown() for held in view.messages.values() if _is_sent(held))
        )
        if not before or len(sent) <= len(before):
            return set()
        pairs = list(zip(before, sent, strict=False))
        if not all(_content(old) == _content(new) for old, new in pairs):
            return set()
        return {new["id"] for _, new in pairs if new["id"] not in self._messages}


def _is_sent(held: Held) -> bool:
    return isinstance(held, ClientMessage) and held.is_sent


def _conversation(messages: Iterable[Json]) -> Iterator[Json]:
    return (m for m in messages if m["role"] in _CONVERSATION and "subagentRunId" not in m)


def _content(message: Json) -> tuple[object, ...]:
    """Return the content of a message, without ids."""
    calls = [call["function"] for call in message.get("toolCalls") or ()]
    made = [(call.get("name"), _parsed(call.get("arguments"))) for call in calls]
    return message["role"], message.get("content") or "", made


def _parsed(arguments: object) -> object:
    """Return a call's arguments; as they are if they are not JSON."""
    try:
        return json_text.decode_foreign(arguments) if isinstance(arguments, str) else arguments
    except orjson.JSONDecodeError:
        return arguments
