"""What runs add to a framework's session, kept in the fleet's memory.

Each run has values of its own, so runs at the same time lose nothing of each other's. What an
attempt has added is dropped by the next attempt at the same run, which adds it anew: each run's
items are there once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.memory import MemoryChanged, MemoryValue, prefix_of
from headrace.sdk.context import RunContext
from headrace.sdk.errors import RunOver
from headrace.sdk.memory import Memory

_MOST = 32 * 1024
"""Bytes of a value from which on a run begins another, because values are written as a whole."""


@dataclass(slots=True)
class _Page:
    """One value: items that an attempt added, and those of any page that it has removed."""

    key: str
    revision: int
    run: str
    attempt: int
    items: list[Any] = field(default_factory=list)
    removed: dict[str, list[int]] = field(default_factory=dict)
    """Positions in pages, by the pages' names."""

    @classmethod
    def of(cls, key: str, value: MemoryValue) -> Self:
        """Return the page of a value."""
        return cls(key, value.revision, **json_text.decode(value.data))

    @property
    def name(self) -> str:
        """Names what one attempt writes: the next one writes other items under the key."""
        return f"{self.key}@{self.attempt}"

    def encoded(self) -> bytes:
        """Return the value."""
        value: Json = {"run": self.run, "attempt": self.attempt}
        return json_text.encode({**value, "items": self.items, "removed": self.removed})

    def is_full(self) -> bool:
        """Return whether its run begins another page."""
        return len(self.encoded()) >= _MOST


class Journal:
    """JSON items in the order of the runs that added them, as one attempt at a run uses them.

    Methods raise as those of `Memory`.
    """

    def __init__(self, ctx: RunContext, memory: Memory, *names: str) -> None:
        """Use the journal of `memory` that `names`, any text, name together."""
        self._memory, self._prefix = memory, prefix_of(*names)
        self._run, self._attempt = f"{ctx.task}/{ctx.run}", ctx.attempt
        self._page: _Page | None = None
        """The page to write to, as far as is known: one that was changed since is not written."""
        self._added: int | None = None
        """How many items the run has added, likewise. None: unknown."""

    async def items(self) -> list[Any]:
        """Return the items."""
        items, _ = await self.items_and_own()
        return items

    def is_known_to_have(self, own: int) -> bool:
        """Return whether the run had added `own` items when the journal was last used.

        It has more by now only if another one was used for the same run. An addition notices that.
        """
        return self._page is not None and self._page.revision > 0 and own == self._added

    async def items_and_own(self) -> tuple[list[Any], int]:
        """Return the items, and how many of them the run has added."""
        pages = await self._pages()
        self._page, self._added = self._own(pages), self._count(pages)
        return [item for _, _, item in _left(pages)], self._added

    async def add(self, items: Sequence[Any], own: int | None = None) -> None:
        """Add items of the run.

        Args:
            items: JSON.
            own: How many the run must have added so far. None: any number.

        Raises:
            MemoryChanged: It has added another number.
            RunOver: Another attempt has the run.
        """
        while items:
            page = self._page if own is None or self.is_known_to_have(own) else None
            if page is None or page.is_full():
                pages = await self._pages()
                self._added = self._count(pages)
                if own not in {None, self._added}:
                    raise MemoryChanged(f"the run has added {self._added} items, not {own}")
                page = self._own(pages)
            page.items += items
            if await self._is_written(page):
                self._added = None if self._added is None else self._added + len(items)
                return

    async def pop(self) -> Any:  # noqa: ANN401  # any JSON
        """Remove the last item and return it; None: there is none.

        Raises:
            RunOver: Another attempt has the run.
        """
        while True:
            pages = await self._pages()
            left = _left(pages)
            if not left:
                return None
            name, position, item = left[-1]
            page = self._own(pages)
            page.removed.setdefault(name, []).append(position)
            if await self._is_written(page):
                return item

    async def clear(self) -> None:
        """Delete all items, also those of other runs."""
        self._page = self._added = None
        for key in await self._memory.keys(self._prefix):
            await self._memory.delete(key)

    async def _pages(self) -> list[_Page]:
        """Return the pages in order, without those of earlier attempts at the run."""
        while True:
            found = await self._memory.read(self._prefix)
            pages = [_Page.of(key, found[key]) for key in sorted(found)]
            own = [page for page in pages if page.run == self._run]
            if any(page.attempt > self._attempt for page in own):
                raise RunOver("another attempt has the run")
            earlier = [page for page in own if page.attempt < self._attempt]
            if not earlier:
                return pages
            await self._take_over(earlier)

    async def _take_over(self, earlier: Sequence[_Page]) -> None:
        """Drop what earlier attempts added. One page stays, which tells them that they are over."""
        first, *more = earlier
        page = _Page(first.key, first.revision, self._run, self._attempt)
        if await self._is_written(page):
            for each in more:
                await self._memory.delete(each.key)

    def _count(self, pages: Sequence[_Page]) -> int:
        return sum(len(page.items) for page in pages if page.run == self._run)

    def _own(self, pages: Sequence[_Page]) -> _Page:
        """Return the page to write to: the run's last one, or a new one if that is full."""
        own = [page for page in pages if page.run == self._run]
        if own and not own[-1].is_full():
            return own[-1]
        last = int(pages[-1].key.removeprefix(self._prefix)) if pages else 0
        return _Page(f"{self._prefix}{last + 1:09}", 0, self._run, self._attempt)

    async def _is_written(self, page: _Page) -> bool:
        """Write a page; False: another run or attempt was first."""
        self._page = None
        try:
            page.revision = await self._memory.put(page.key, page.encoded(), revision=page.revision)
        except MemoryChanged:
            return False
        self._page = page
        return True


def _left(pages: Sequence[_Page]) -> list[tuple[str, int, Any]]:
    """Return the items that none has removed, each with its page's name and its position there.

    Each run's items stand together, because models refuse a tool's call without its result.
    """
    begun = {page.run: page.key for page in reversed(pages)}
    pages = sorted(pages, key=lambda page: begun[page.run])
    removed = {(name, at) for page in pages for name, every in page.removed.items() for at in every}
    return [
        (page.name, position, item)
        for page in pages
        for position, item in enumerate(page.items)
        if (page.name, position) not in removed
    ]
