"""One entry of a feed, with what each entry renderer that a client has makes of it."""

from typing import Protocol

from headrace.model.entry import Entry


class EntryRenderer(Protocol):
    """Renders entries into a stream's bytes, without state: one object for all clients."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the entry's events after its first `skip` as frames.

        The bytes are cut where each client's own envelope (a JSON-RPC id) goes between.
        """


class Block:
    """An entry, rendered at most once by each entry renderer however many clients read it."""

    __slots__ = ("_rendered", "entry", "size")

    def __init__(self, entry: Entry) -> None:
        """Hold `entry`."""
        self.entry = entry
        self.size = sum(map(len, entry.lines))
        self._rendered: dict[EntryRenderer, tuple[bytes, ...]] = {}

    def render(self, entry_renderer: EntryRenderer, splice: bytes, after: int) -> bytes:
        """Return the frames of the events behind generation `after`, `splice` in each envelope."""
        return splice.join(self.pieces(entry_renderer, after))

    def pieces(self, entry_renderer: EntryRenderer, after: int) -> tuple[bytes, ...]:
        """Return what `entry_renderer` makes of the events behind generation `after`."""
        skip = after + 1 - self.entry.generation
        if skip > 0:
            return entry_renderer.render(self.entry, skip)
        pieces = self._rendered.get(entry_renderer)
        if pieces is None:
            pieces = self._rendered[entry_renderer] = entry_renderer.render(self.entry, 0)
        return pieces
