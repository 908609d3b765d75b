"""A list that gateways answer in pages."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Self

from headrace.client.gateways import Gateways, Request
from headrace.model.events import Json

type Query = Mapping[str, str | int]


class PagedList[Item]:
    """Yields the items of a list; pages are requested as they are needed.

    A read that is cancelled, or that fails, requests its page again at the next one.
    """

    def __init__(
        self,
        gateways: Gateways,
        path: str,
        query: Query,
        names: tuple[str, str, str],
        item: Callable[[Json], Item],
    ) -> None:
        """List `path`.

        Args:
            gateways: The gateways.
            path: The list's path.
            query: The parameters of each page.
            names: The member that has a page's items, the one that has the next page's token, and
                the parameter that the token is sent in.
            item: Returns an item from its JSON.
        """
        self._gateways, self._path, self._query = gateways, path, dict(query)
        self._items_name, self._next_name, self._parameter = names
        self._item = item
        self._items = deque[Json]()
        self._is_last = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        while not self._items:
            if self._is_last:
                raise StopAsyncIteration
            page = await self._gateways.json(Request("GET", self._path, query=self._query))
            self._add(page)
        return self._item(self._items.popleft())

    def _add(self, page: Mapping[str, Any]) -> None:
        self._items.extend(page.get(self._items_name) or ())
        token: str | int | None = page.get(self._next_name)
        self._is_last = token in {None, ""}
        if token is not None:
            self._query[self._parameter] = token
