"""A task's messages and metadata."""

from dataclasses import dataclass, field

from headrace.model.events import Json
from headrace.model.fold.change import DROP, IN, KIN, META, OUT, TEXTS, Item
from headrace.model.fold.pieces import Pieces

_SAID = frozenset({OUT, KIN})


@dataclass(slots=True)
class _Message:
    """One message; an agent's may have come in pieces."""

    generation: int
    frame: Json
    """The first piece, without its parts."""
    is_input: bool
    lasts: bool
    """Whether it stays though the attempt that brought it is discarded."""
    pieces: Pieces = field(default_factory=Pieces)

    def whole(self, before: int) -> Json:
        return {**self.frame, "parts": self.pieces.merged(before)}


class History:
    """Takes history items in order; each costs O(1), amortised over what it brings."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._messages: list[_Message] = []
        self._by_id: dict[str, _Message] = {}
        self._last: _Message | None = None
        self._metadata: list[tuple[int, Json]] = []

    def take(self, item: Item) -> None:
        """Take the next item."""
        generation, tag, value = item[0], item[1], item[2]
        if tag == TEXTS:
            if self._last is not None:
                self._last.pieces.go_on(generation, item[2:])
        elif tag in _SAID:
            self._take_output(generation, value, lasts=tag == KIN)
        elif tag == IN:
            self._take_input(generation, value)
        elif tag == META:
            self._metadata.append((generation, value))
        elif tag == DROP:
            self._drop_after(value)

    def metadata(self) -> Json:
        """Return the task's metadata; a later value of a key wins."""
        return {key: value for _, some in self._metadata for key, value in some.items()}

    def messages(self, before: int, most: int | None = None) -> list[Json]:
        """Return the messages that came before generation `before`, at most the `most` last ones.

        The message of the current status belongs to the status until the next one comes, so
        `before` is the generation of that status.
        """
        past = [message for message in self._messages if message.generation < before]
        if most is not None:
            past = past[max(len(past) - most, 0) :]
        return [message.whole(before) for message in past]

    def _take_output(self, generation: int, said: Json, *, lasts: bool) -> None:
        name = said.get("messageId")
        message = self._by_id.get(name) if name else None
        if message is None:
            message = self._append(generation, said, lasts=lasts)
            if name:
                self._by_id[name] = message
        message.pieces.extend(generation, said.get("parts") or [])
        self._last = message

    def _take_input(self, generation: int, said: Json | None) -> None:
        # Pieces merge within a run only: agents may use an id again.
        self._by_id.clear()
        self._last = None
        if said is not None:
            message = self._append(generation, said, is_input=True, lasts=True)
            message.pieces.extend(generation, said.get("parts") or [])

    def _append(
        self, generation: int, said: Json, *, lasts: bool, is_input: bool = False
    ) -> _Message:
        frame = {key: value for key, value in said.items() if key != "parts"}
        message = _Message(generation, frame, is_input, lasts)
        self._messages.append(message)
        return message

    def _drop_after(self, generation: int) -> None:
        """Discard this run's output after `generation`; inputs stay, and what children said."""
        kept: list[_Message] = []
        while self._messages and not self._messages[-1].is_input:
            message = self._messages.pop()
            if message.lasts:
                kept.append(message)
            elif message.generation <= generation:
                message.pieces.drop_after(generation)
                kept.append(message)
        self._messages.extend(reversed(kept))
        self._by_id = {m.frame["messageId"]: m for m in kept if m.frame.get("messageId")}
        self._last = None
        while self._metadata and self._metadata[-1][0] > generation:
            self._metadata.pop()
