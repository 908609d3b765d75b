"""A conversation as an AG-UI client sends it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headrace.model.events import Json
from headrace.model.parts import ToolResultPart
from headrace.model.user_content import to_parts
from headrace_worker.conversation import CallItem, Item, ReasoningItem, ResultItem, TextItem, Turn


def turns_of_agui(
    messages: Iterable[Json], content: Sequence[Json], known: Sequence[Turn] = ()
) -> list[Turn]:
    """Return the turns of an AG-UI client's messages.

    `content` is the content of the run's input, which is missing from its message. If a response is
    among `known`, the turns of the thread's logs, and the client has it unchanged, then the known
    turn is returned: it includes what the client never received.
    """
    return list(_AgUi(known).turns(messages, content))


class _AgUi:
    """Reader of an AG-UI client's messages."""

    def __init__(self, known: Sequence[Turn]) -> None:
        self._known: Mapping[str, tuple[Turn, Item]] = {
            item.id: (turn, item)
            for turn in known
            if turn.role == "assistant"
            for item in turn.items
        }
        self._results = {turn.result.id: turn.origin for turn in known if turn.result is not None}

    def turns(self, messages: Iterable[Json], content: Sequence[Json]) -> Iterator[Turn]:
        responses: list[Turn] = []
        for message in messages:
            if (turn := self._turn(message, content)) is None:
                continue
            if turn.role == "assistant":
                responses.append(turn)
                continue
            yield from self._responses(responses)
            responses = []
            yield turn
        yield from self._responses(responses)

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
                error = message.get("error") or ""
                result = ToolResultPart(message["toolCallId"], content, error, bool(error))
                return Turn("tool", name, result=result, origin=self._results.get(result.id, ""))
            case "reasoning":
                encrypted = message.get("encryptedValue") or ""
                item = ReasoningItem(content or "", name, encrypted, self._origin_of(name))
                return Turn("assistant", name, items=[item])
            case "assistant":
                items: list[Item] = (
                    [TextItem(content, name, self._origin_of(name))] if content else []
                )
                for call in map(_agui_call, message.get("toolCalls") or ()):
                    call.origin = self._origin_of(call.id)
                    items.append(call)
                return Turn("assistant", name, items=items)
            case "activity" if name in self._known:
                return Turn("assistant", name, items=[self._known[name][1]])
        return None

    def _responses(self, turns: list[Turn]) -> Iterator[Turn]:
        """Yield the agent's responses: messages that belong to one response become one turn."""
        merged: list[Turn] = []
        for turn in turns:
            if merged and self._belongs(merged[-1], turn):
                merged[-1].items += turn.items
            else:
                merged.append(turn)
        for turn in merged:
            origin = self._origin(turn)
            if origin is not None and _is_unchanged(origin, turn):
                yield origin
            elif turn.items:
                yield turn

    def _belongs(self, before: Turn, turn: Turn) -> bool:
        origin = self._origin(turn)
        if origin is not None or self._origin(before) is not None:
            return origin is self._origin(before)
        return all(isinstance(item, ReasoningItem) for item in before.items)

    def _origin_of(self, name: str) -> str:
        _, item = self._known.get(name, (None, None))
        return "" if item is None or isinstance(item, ResultItem) else item.origin

    def _origin(self, turn: Turn) -> Turn | None:
        found = (self._known[item.id][0] for item in turn.items if item.id in self._known)
        return next(found, None)


def _is_unchanged(origin: Turn, turn: Turn) -> bool:
    """Return whether a client's messages contain the response `origin` unchanged."""
    called = [(call.id, call.name, call.arguments) for call in origin.calls]
    return origin.text == turn.text and called == [
        (call.id, call.name, call.arguments) for call in turn.calls
    ]


def _agui_call(call: Json) -> CallItem:
    function = call.get("function") or {}
    name, text = function.get("name", ""), function.get("arguments", "")
    return CallItem.of_text(call["id"], name, text, call.get("encryptedValue") or "")
