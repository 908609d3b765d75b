"""A conversation as an AG-UI client sends it.

What the client has of this fleet's answers is a copy, which is shorter than the log if its stream
broke. The log's answers take the place of their copies, each once: copies of a few bytes may stand
for much more. Tool calls get the agent's own ids again.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from headrace.adapters.conversation.turns import (
    CallItem,
    Item,
    ReasoningItem,
    ResultItem,
    TextItem,
    Turn,
)
from headrace.model.events import Json
from headrace.model.parts import ToolResultPart
from headrace.model.run_ids import is_minted, own_id, run_digest, unique_id
from headrace.model.user_content import to_parts


def turns_of_agui(
    messages: Iterable[Json],
    content: Sequence[Json],
    known: Sequence[Turn] = (),
    replaced: Collection[str] = (),
) -> list[Turn]:
    """Return the turns of an AG-UI client's messages.

    Args:
        messages: The client's messages.
        content: The content of the run's input, which is missing from its message.
        known: The turns of the thread's logs before the run. A response of which the client has a
            message is returned as it is here, followed by what the client has not received of
            its run.
        replaced: Ids of messages that the agent itself has set since, with other content.
    """
    return _AgUi(_LoggedTurns(known, replaced)).turns(messages, content)


class _LoggedTurns:
    """The turns of a thread's logs, by the ids that clients have received."""

    def __init__(self, turns: Sequence[Turn], replaced: Collection[str]) -> None:
        self._of_runs: defaultdict[tuple[str, int], list[Turn]] = defaultdict(list)
        self.items: dict[str, tuple[Turn, Item]] = {}
        self.results: dict[str, Turn] = {}
        self._made = Counter[tuple[str, str]]()
        self._waiting: dict[str, list[str]] = {}
        self._begun: set[tuple[str, int]] = set()
        for turn in turns:
            self._add(turn)
        self._add_unambiguous()
        for name in replaced:
            self.items.pop(name, None)

    def _add(self, turn: Turn) -> None:
        digest, run = run_digest(turn.task, turn.run), (turn.task, turn.run)
        if turn.role != "user":
            self._of_runs[run].append(turn)
        if turn.role != "tool":
            self._begun.add(run)
        if turn.role == "tool" and turn.result is not None:
            name = self._answered(turn.result.id, digest)
            if run in self._begun:
                # Before anything else in its run, it is the input: the client's own.
                self.results[name] = turn
        elif turn.role == "assistant":
            for item in turn.items:
                is_call = isinstance(item, CallItem)
                name = self._call(item.id, digest) if is_call else unique_id(item.id, digest)
                self.items[name] = turn, item
                if is_minted(item.id):
                    # A fork has its source's ids.
                    self.items.setdefault(item.id, (turn, item))

    def _add_unambiguous(self) -> None:
        """Add calls by the agent's ids, too, where each is that of one call only."""
        calls = Counter(own for _, own in self._made.elements())
        for name, (turn, item) in [*self.items.items()]:
            if isinstance(item, CallItem) and calls[item.id] == 1:
                self.items.setdefault(item.id, (turn, item))
                if name in self.results:
                    self.results.setdefault(item.id, self.results[name])

    def _call(self, own: str, digest: str) -> str:
        self._made[digest, own] += 1
        name = unique_id(own, digest, self._made[digest, own])
        self._waiting.setdefault(own, []).append(name)
        return name

    def _answered(self, own: str, digest: str) -> str:
        """Return the call that a result of the run belongs to: the oldest one without a result."""
        waiting = self._waiting.get(own, [])
        of_run = (name for name in waiting if digest in name)
        name = next(of_run, waiting[0] if waiting else unique_id(own, digest))
        if name in waiting:
            waiting.remove(name)
        return name

    def rest_of_run(self, last: Turn) -> list[Turn]:
        """Return what the run has emitted after the turn."""
        turns = self._of_runs[last.task, last.run]
        return turns[next(at for at, turn in enumerate(turns, 1) if turn is last) :]


class _AgUi:
    """Reader of an AG-UI client's messages."""

    def __init__(self, known: _LoggedTurns) -> None:
        self._known = known

    def turns(self, messages: Iterable[Json], content: Sequence[Json]) -> list[Turn]:
        turns, last = list[Turn](), dict[tuple[str, int], tuple[int, Turn]]()
        used = set[int]()
        for turn, logged in self._read(messages, content):
            if id(logged) in used:
                continue
            turns.append(turn)
            if logged is not None:
                used.add(id(logged))
                last[logged.task, logged.run] = len(turns), logged
        for at, logged in sorted(last.values(), key=lambda each: each[0], reverse=True):
            turns[at:at] = self._known.rest_of_run(logged)
        return turns

    def _read(
        self, messages: Iterable[Json], content: Sequence[Json]
    ) -> Iterator[tuple[Turn, Turn | None]]:
        """Yield the turns, each with the turn of the log that it is, if any."""
        responses: list[tuple[Turn, Turn | None]] = []
        for message in messages:
            if (turn := self._turn(message, content)) is None:
                continue
            if turn.role == "assistant":
                responses.append((turn, self._logged(message)))
                continue
            yield from _merged(responses)
            responses = []
            yield turn, self._known.results.get(message.get("toolCallId", ""))
        yield from _merged(responses)

    def _turn(  # noqa: PLR0911  # one for each role
        self, message: Json, sent: Sequence[Json]
    ) -> Turn | None:
        content, name = message.get("content"), message.get("id", "")
        match message.get("role"):
            case "system" | "developer":
                return Turn("system", name, parts=to_parts(content or ""))
            case "user":
                return Turn("user", name, parts=sent if content is None else to_parts(content))
            case "tool":
                return self._result(message, name)
            case "reasoning":
                encrypted = message.get("encryptedValue") or ""
                item = ReasoningItem(content or "", name, encrypted, self._origin_of(name))
                return Turn("assistant", name, items=[item])
            case "assistant":
                items: list[Item] = (
                    [TextItem(content, name, self._origin_of(name))] if content else []
                )
                items += [self._call(call) for call in message.get("toolCalls") or ()]
                return Turn("assistant", name, items=items)
            case "activity" if name in self._known.items:
                return Turn("assistant", name, items=[self._known.items[name][1]])
        return None

    def _result(self, message: Json, name: str) -> Turn:
        call = message["toolCallId"]
        if (logged := self._known.results.get(call)) is not None:
            return replace(logged, id=name)
        error = message.get("error") or ""
        result = ToolResultPart(own_id(call), message.get("content"), error, bool(error))
        return Turn("tool", name, result=result)

    def _call(self, call: Json) -> CallItem:
        function, name = call.get("function") or {}, call["id"]
        tool, text = function.get("name", ""), function.get("arguments", "")
        made = CallItem.of_text(own_id(name), tool, text, call.get("encryptedValue") or "")
        made.origin = self._origin_of(name)
        return made

    def _origin_of(self, name: str) -> str:
        _, item = self._known.items.get(name, (None, None))
        return "" if item is None or isinstance(item, ResultItem) else item.origin

    def _logged(self, message: Json) -> Turn | None:
        """Return the response of the log to which an agent's message belongs, if any."""
        calls = (call["id"] for call in message.get("toolCalls") or ())
        found = (self._known.items.get(name) for name in (message.get("id", ""), *calls))
        return next((known[0] for known in found if known is not None), None)


def _merged(
    responses: Iterable[tuple[Turn, Turn | None]],
) -> Iterator[tuple[Turn, Turn | None]]:
    """Yield the agent's responses: messages that belong to one response become one turn."""
    merged: list[tuple[Turn, Turn | None]] = []
    for turn, logged in responses:
        if merged and _belongs(merged[-1], logged):
            merged[-1][0].items += turn.items
        else:
            merged.append((turn, logged))
    for turn, logged in merged:
        if logged is not None:
            yield logged, logged
        elif turn.items:
            yield turn, None


def _belongs(before: tuple[Turn, Turn | None], logged: Turn | None) -> bool:
    if logged is not None or before[1] is not None:
        return logged is before[1]
    return all(isinstance(item, ReasoningItem) for item in before[0].items)
