"""Dead letters of one trigger or schedule: its owner lists and reads them.

Those of a tenant, of all kinds, are its operators'.
"""

from datetime import datetime

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model.subjects import decode_token
from headrace.tasks.dead_letters import Letters, LetterUnknown, letters_of
from headrace_gateway.protocols.fleet.dead_letters import number_in_path, page_in, shown_page
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services

PATH = "/dead-letters"
"""Behind the path of the trigger or schedule."""


class OwnLetters:
    """Answers requests whose caller has been found to own a trigger or schedule."""

    def __init__(self, services: Services) -> None:
        """Use the letters on the bus of `services`."""
        self._letters = Letters(services.bus)

    async def page(self, request: Request, tenant: str, source: str, made: datetime) -> ASGIApp:
        """Return a page of the letters of a `source` of firings of `tenant`, a token."""
        after, limit = page_in(request)
        return shown_page(await self._letters.page(letters_of(tenant, source, made), after, limit))

    async def one(self, request: Request, tenant: str, source: str) -> ASGIApp:
        """Return one of them in full."""
        letter = await self._letters.get(number_in_path(request))
        if (letter.tenant, letter.content.trigger) != (decode_token(tenant), source):
            raise LetterUnknown(f"dead letter {letter.number} does not exist")
        return json_response(letter.details(), headers=NO_STORE)
