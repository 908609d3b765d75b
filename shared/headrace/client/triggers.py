"""The client's triggers: events that begin tasks."""

from urllib.parse import quote

from headrace.client.gateways import Gateways, Request
from headrace.model.events import Json

_PATH = "/v1/triggers"


class ClientTriggers:
    """The caller's triggers: `Client.triggers`. Each is JSON, as the API describes it."""

    def __init__(self, gateways: Gateways) -> None:
        """Use a fleet's gateways."""
        self._gateways = gateways

    async def apply(self, trigger: Json) -> Json:
        """Create the trigger, or replace the caller's one of its ``name``. Return it.

        Its other members are those of the API.
        """
        body = dict(trigger)
        return await self._ask("PUT", str(body.pop("name", "")), body=body)

    async def list(self, owner: str | None = None) -> list[Json]:
        """Return the caller's triggers.

        Args:
            owner: For operators: only this owner's. None: those of all owners.
        """
        query = {} if owner is None else {"owner": owner}
        found = await self._gateways.json(Request("GET", _PATH, query=query))
        listed: list[Json] = found["triggers"]
        return listed

    async def get(self, name: str, owner: str | None = None) -> Json:
        """Return a trigger, with its last firings and the number of events that wait."""
        return await self._ask("GET", name, owner=owner)

    async def pause(self, name: str, owner: str | None = None) -> Json:
        """Let the events of a trigger wait in their stream. Return the trigger."""
        return await self._ask("POST", name, ":pause", owner=owner)

    async def resume(self, name: str, owner: str | None = None) -> Json:
        """Let the events of a paused trigger begin tasks again. Return the trigger."""
        return await self._ask("POST", name, ":resume", owner=owner)

    async def delete(self, name: str, owner: str | None = None) -> None:
        """Delete a trigger; tasks that it has begun go on."""
        await self._ask("DELETE", name, owner=owner)

    async def _ask(
        self,
        method: str,
        name: str,
        command: str = "",
        *,
        body: Json | None = None,
        owner: str | None = None,
    ) -> Json:
        path = f"{_PATH}/{quote(name, safe='')}{command}"
        query = {} if owner is None else {"owner": owner}
        found: Json = await self._gateways.json(Request(method, path, body, query=query))
        return found
