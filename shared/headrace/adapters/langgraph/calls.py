"""The tool calls of a graph's models: pieces put together, and ids that are unique in the log.

Models may number their calls anew in each response, and LangChain passes the ids on. Tools and the
graph's state keep these ids; the log has ``call_1``, then ``call_1.2``.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.adapters.conversation.turns import Turn
from headrace.sdk.emit import ToolArguments


@dataclass(slots=True)
class ChunkedCall:
    """A call whose pieces arrive one by one."""

    index: int | str | None
    theirs: str = ""
    """The model's id; it may come after the name."""
    name: str = ""
    own: str = ""
    """The id in the log; empty until a piece was emitted."""
    arguments: str = ""
    """What has not been emitted yet."""

    def is_continued_by(self, piece: Any) -> bool:  # noqa: ANN401  # a ToolCallChunk
        """Return whether LangChain merges `piece` with this call: without an index, it never does.

        Integrations that pass whole calls on give no index, others the same one to each call.
        """
        index, theirs = piece.get("index"), piece.get("id")
        merges = isinstance(index, int) or (isinstance(index, str) and index.startswith("lc_"))
        return merges and index == self.index and theirs in {None, "", self.theirs or theirs}


class GraphCalls:
    """The calls of one run, with those of the task's log before it."""

    def __init__(self, before: Iterable[Turn] = ()) -> None:
        """Start after the turns that the log has of the task."""
        self._used = set[str]()
        self._open = dict[str, str]()
        """The calls without a result: the model's id by the id in the log."""
        self._logged = list[str]()
        """Ids in the log of calls without a result whose models' ids are not known."""
        self._streamed = dict[str, list[ChunkedCall]]()
        self._seen = set[tuple[str, str]]()
        for turn in before:
            self._logged += [call.id for call in turn.calls]
            self._used.update(call.id for call in turn.calls)
            if turn.result is not None and turn.result.id in self._logged:
                self._logged.remove(turn.result.id)

    def begin(self, theirs: str) -> str:
        """Return the id in the log of a new call; empty if the model gave none."""
        own, number = theirs, 1
        while own and own in self._used:
            number += 1
            own = f"{theirs}.{number}"
        if own:
            self._used.add(own)
            self._open[own] = theirs
        return own

    def whole(self, message: str, theirs: str) -> str | None:
        """Return the id in the log of a message's call; None if it was emitted already."""
        if theirs and (message, theirs) in self._seen:
            return None
        self._seen.add((message, theirs))
        return self.begin(theirs)

    def piece(self, message: str, piece: Any) -> ToolArguments | None:  # noqa: ANN401  # a ToolCallChunk
        """Return what to emit for a piece of a message's call; None while its id is missing."""
        calls = self._streamed.setdefault(message, [])
        call = next((each for each in calls if each.is_continued_by(piece)), None)
        if call is None:
            call = ChunkedCall(piece.get("index"))
            calls.append(call)
        call.theirs, call.name = (
            call.theirs or piece.get("id") or "",
            call.name + _text(piece, "name"),
        )
        call.arguments += _text(piece, "args")
        if not (call.theirs and call.name):
            return None
        return self._emitted(message, call)

    def _emitted(self, message: str, call: ChunkedCall) -> ToolArguments:
        if not call.own:
            self._seen.add((message, call.theirs))
            call.own = self.begin(call.theirs)
        arguments, call.arguments = call.arguments, ""
        return ToolArguments(call.own, arguments, call.name)

    def end(self, message: str) -> Sequence[ChunkedCall]:
        """Return the calls of a message that has ended; those without an `own` have no id."""
        return [call for call in self._streamed.pop(message, ()) if call.name]

    def answered(self, theirs: str) -> str:
        """Return the id in the log of the call that a tool's result answers."""
        own = self.of(theirs)
        self._open.pop(own, None)
        if own in self._logged:
            self._logged.remove(own)
        return own

    def of(self, theirs: str) -> str:
        """Return the id in the log of the first call of that id without a result."""
        waiting = (own for own, known in self._open.items() if known == theirs)
        logged = (own for own in self._logged if graphs_id(own, [theirs]) == theirs)
        return next(waiting, None) or next(logged, theirs)


def graphs_id(own: str, theirs: Collection[str]) -> str:
    """Return the one of the model's ids `theirs` that the log has as `own`; else `own`."""
    if own in theirs:
        return own
    return next((each for each in theirs if each and own.startswith(f"{each}.")), own)


def _text(piece: Any, key: str) -> str:  # noqa: ANN401  # a ToolCallChunk
    return piece.get(key) or ""
