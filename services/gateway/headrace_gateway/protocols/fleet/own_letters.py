"""Dead letters of one trigger or schedule: its owner lists and reads them.

Those of a tenant, of all kinds, are its operators'.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model.subjects import decode_token
from headrace.tasks.dead_letters import Letters, LetterUnknown, letters_of
from headrace_gateway.call import caller_of
from headrace_gateway.protocols.fleet.dead_letters import number_in_path, page_in, shown_page
from headrace_gateway.protocols.fleet.declaration import check_owner
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services

PATH = "/dead-letters"
"""Behind the path of the trigger or schedule."""


class OwnLetters:
    """The endpoints of one kind of declarations."""

    def __init__(self, services: Services, source_of: "SourceOf") -> None:
        """Use the letters on the bus of `services`.

        `source_of` finds what a request names: the source of the letters, if the caller may see it.
        """
        self._services, self._letters = services, Letters(services.bus)
        self._source_of = source_of

    async def page(self, request: Request) -> ASGIApp:
        """Return a page of the letters since the declaration was made, oldest first."""
        tenant, source, made = await self._source(request)
        after, limit = page_in(request)
        return shown_page(await self._letters.page(letters_of(tenant, source, made), after, limit))

    async def one(self, request: Request) -> ASGIApp:
        """Return one of them in full."""
        tenant, source, _ = await self._source(request)
        letter = await self._letters.get(number_in_path(request))
        if (letter.tenant, letter.content.trigger) != (decode_token(tenant), source):
            raise LetterUnknown(f"dead letter {letter.number} does not exist")
        return json_response(letter.details(), headers=NO_STORE)

    async def _source(self, request: Request) -> "Source":
        check_owner(request, caller_of(self._services, request), "read its dead letters here")
        return await self._source_of(request)


type Source = tuple[str, str, datetime]
"""Tenant, a token; name of the source of firings in it; when its declaration was made."""

type SourceOf = Callable[[Request], Awaitable[Source]]
