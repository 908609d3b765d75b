"""The client's triggers: events that begin tasks."""

from headrace.client.declarations import ClientDeclarations
from headrace.client.gateways import Gateways, Request
from headrace.model.events import Json

_PATH = "/v1/triggers"


class ClientTriggers(ClientDeclarations):
    """The caller's triggers: `Client.triggers`."""

    def __init__(self, gateways: Gateways) -> None:
        """Use a fleet's gateways."""
        super().__init__(gateways, _PATH)

    async def list(self, owner: str | None = None) -> list[Json]:
        """Return the caller's triggers.

        Args:
            owner: For operators: only this owner's. None: those of all owners.
        """
        query = {} if owner is None else {"owner": owner}
        found = await self._gateways.json(Request("GET", _PATH, query=query))
        listed: list[Json] = found["triggers"]
        return listed

    async def pause(self, name: str, owner: str | None = None) -> Json:
        """Let the events of a trigger wait in their stream. Return the trigger."""
        return await self._ask("POST", name, ":pause", owner=owner)

    async def resume(self, name: str, owner: str | None = None) -> Json:
        """Let the events of a paused trigger begin tasks again. Return the trigger."""
        return await self._ask("POST", name, ":resume", owner=owner)
