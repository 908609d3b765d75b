"""What the client's triggers and schedules have in common: each has a name and an owner."""

from urllib.parse import quote

from headrace.client.gateways import Gateways, Request
from headrace.client.paged_list import PagedList
from headrace.model.events import Json


class ClientDeclarations:
    """The caller's declarations of one kind. Each is JSON, as the API describes it.

    `owner` is for operators: whose declaration it is. None: the caller's.
    """

    def __init__(self, gateways: Gateways, kind: str) -> None:
        """Use a fleet's gateways; `kind` is the declarations' name in paths and answers."""
        self._gateways, self._kind, self._path = gateways, kind, f"/v1/{kind}"

    async def apply(self, declaration: Json) -> Json:
        """Create the declaration, or replace the caller's one of its ``name``. Return it.

        Its other members are those of the API.
        """
        body = dict(declaration)
        return await self._ask("PUT", str(body.pop("name", "")), body=body)

    async def get(self, name: str, owner: str | None = None) -> Json:
        """Return a declaration, with what its last firings have done."""
        return await self._ask("GET", name, owner=owner)

    def list(self, owner: str | None = None) -> PagedList[Json]:
        """Yield the caller's declarations; pages are requested as they are needed.

        Args:
            owner: For operators: only this owner's. None: those of all owners.
        """
        query = {} if owner is None else {"owner": owner}
        return self._pages(self._path, query, self._kind)

    async def pause(self, name: str, owner: str | None = None) -> Json:
        """Let nothing begin tasks until it is resumed. Return the declaration.

        Events of a trigger wait in their stream. A schedule does not fire for the times that pass;
        one for one time fires for it when it is resumed.
        """
        return await self._ask("POST", name, ":pause", owner=owner)

    async def resume(self, name: str, owner: str | None = None) -> Json:
        """Let a paused declaration begin tasks again. Return it."""
        return await self._ask("POST", name, ":resume", owner=owner)

    def dead_letters(self, name: str) -> PagedList[Json]:
        """Yield the dead letters of the caller's declaration, oldest first, without their events.

        They are events or firings of which no task could be made.
        """
        return self._pages(self._path_of(name, "/dead-letters"), {}, "letters")

    async def dead_letter(self, name: str, number: int) -> Json:
        """Return one of them, by its ``id``, with the event."""
        return await self._ask("GET", name, f"/dead-letters/{number}")

    async def delete(self, name: str, owner: str | None = None) -> None:
        """Delete a declaration with its dead letters; tasks that it began continue."""
        await self._ask("DELETE", name, owner=owner)

    async def _ask(
        self,
        method: str,
        name: str,
        command: str = "",
        headers: dict[str, str] | None = None,
        *,
        body: Json | None = None,
        owner: str | None = None,
    ) -> Json:
        path = self._path_of(name, command)
        query = {} if owner is None else {"owner": owner}
        return await self._gateways.json(Request(method, path, body, headers or {}, query=query))

    def _pages(self, path: str, query: dict[str, str], items: str) -> PagedList[Json]:
        return PagedList(self._gateways, path, query, (items, "next", "after"), lambda one: one)

    def _path_of(self, name: str, command: str) -> str:
        return f"{self._path}/{quote(name, safe='')}{command}"
