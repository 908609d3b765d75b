"""Items of one task's history or artifacts on their way to the store, texts in their shortest form.

A chunk of streamed text repeats its artifact's id and the part's metadata a thousand times. What
only goes on with the text before it is kept as that text alone (`headrace.model.fold.change`, "t").
"""

from headrace.model.events import Json
from headrace.model.fold import ADD, KIN, META, NEW, OUT, TEXTS, Item, same_but_text

_BEARING = frozenset({NEW, ADD, OUT, KIN})
_EXTENDING = frozenset({ADD, OUT, KIN})
_BARE_ARTIFACT = 2
"""Fields of a chunk that says nothing beside its parts."""


class Compaction:
    """Takes items in order, and gives back what to append to the task's list.

    It remembers what the list ends with, so it must see every item from some point on, and be
    given up if what it gave back was not written.
    """

    __slots__ = ("_items", "_name", "_next", "_open", "_texts")

    def __init__(self) -> None:
        """Know nothing of what the list ends with."""
        self._items: list[Item] = []
        self._name: str | None = None
        self._open: Json | None = None
        """The text part that the list ends with."""
        self._texts: Item | None = None
        self._next = 0

    def take(self, item: Item) -> None:
        """Take the next item."""
        generation, tag, value = item
        if tag in _EXTENDING and (text := self._going_on(tag, value)) is not None:
            self.go_on(generation, text)
            return
        self._texts = None
        self._items.append(item)
        if tag != META:
            self._remember(tag, value)

    def go_on(self, generation: int, text: str) -> None:
        """Take an item that goes on with the text part that the list ends with."""
        if self._texts is not None and generation == self._next:
            self._texts.append(text)
        else:
            self._texts = [generation, TEXTS, text]
            self._items.append(self._texts)
        self._next = generation + 1

    @property
    def went_on(self) -> int:
        """Generation of the last item, if it went on with that part; 0: it did not."""
        return self._next - 1 if self._texts is not None else 0

    @property
    def open(self) -> Json | None:
        """The text part that the list ends with.

        While this is the same object, whatever differs from an item that went on with it in nothing
        but its text goes on with it, too.
        """
        return self._open

    def flush(self) -> list[Item]:
        """Return what came since the last time."""
        items, self._items, self._texts = self._items, [], None
        return items

    def _going_on(self, tag: str, value: Json) -> str | None:
        """Return the text if it is all that `value` adds to what the list ends with."""
        if self._open is None:
            return None
        name = value.get("artifactId" if tag == ADD else "messageId")
        parts: list[Json] = value.get("parts") or []
        if name != self._name or len(parts) != 1 or (tag == ADD and len(value) > _BARE_ARTIFACT):
            return None
        part = parts[0]
        if "text" not in part or not same_but_text(self._open, part):
            return None
        text: str = part["text"]
        return text

    def _remember(self, tag: str, value: Json) -> None:
        self._name = self._open = None
        if tag in _BEARING:
            parts = value.get("parts")
            name = value.get("messageId" if tag in {OUT, KIN} else "artifactId")
            if name and parts and "text" in parts[-1]:
                self._name, self._open = name, parts[-1]
