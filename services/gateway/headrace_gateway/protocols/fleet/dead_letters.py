"""Dead letters of the operator's tenant: list, show, retry and drop them."""

from collections.abc import Awaitable, Callable
from typing import cast

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model.errors import BusUnavailable, HeadraceError
from headrace.model.events import Json
from headrace.model.subjects import decode_token
from headrace.tasks.dead_letters import (
    KINDS,
    Kind,
    Letter,
    LetterFilter,
    LetterPage,
    Letters,
    LetterUnknown,
    retry_and_drop,
)
from headrace_gateway.call import caller_of
from headrace_gateway.json_errors import InputInvalid, error_answer, read_object
from headrace_gateway.protocols.fleet.parameters import LARGEST_NUMBER, number_in, whole_number
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services

PATH = "/v1/dead-letters"

_MOST = 1000
_USUAL = 50
_AT_ONCE = 100
"""Maximum letters of one request to retry or drop."""

type Act = Callable[[Letter], Awaitable[Json]]
"""Processes one letter; returns what it did."""


class DeadLetterPages:
    """The endpoints."""

    def __init__(self, services: Services) -> None:
        """Use the letters on the bus of `services`."""
        self._services, self._letters = services, Letters(services.bus)

    async def list(self, request: Request) -> ASGIApp:
        """Return a page of letters, oldest first."""
        caller, query = await self._operator(request, "ListDeadLetters"), request.query_params
        kind = query.get("kind")
        if kind is not None and kind not in KINDS:
            raise InputInvalid(f"kind: must be one of {', '.join(KINDS)}")
        wanted = LetterFilter(
            decode_token(caller.tenant), query.get("agent"), cast("Kind", kind), query.get("task")
        )
        after, limit = page_in(request)
        return shown_page(await self._letters.page(wanted, after, limit))

    async def show(self, request: Request) -> ASGIApp:
        """Return one letter in full."""
        caller = await self._operator(request, "GetDeadLetter")
        letter = await self._letter(caller, number_in_path(request))
        return json_response(letter.details(), headers=NO_STORE)

    async def retry(self, request: Request) -> ASGIApp:
        """Retry letters and drop them."""

        async def again(letter: Letter) -> Json:
            retried = await retry_and_drop(self._services.bus, letter)
            return {"outcome": retried.outcome, "task": retried.task}

        return await self._each(request, "RetryDeadLetter", again)

    async def drop(self, request: Request) -> ASGIApp:
        """Drop letters without a retry."""

        async def dropped(letter: Letter) -> Json:
            await self._letters.drop(letter.number)
            return {"outcome": "dropped", "task": None}

        return await self._each(request, "DropDeadLetter", dropped)

    async def _each(self, request: Request, operation: str, act: Act) -> ASGIApp:
        """Answer with the outcome for each letter; the others continue if one fails."""
        caller = await self._operator(request, operation)
        numbers = _numbers(await read_object(request, self._services.body_limits))
        results = [await self._one(caller, operation, number, act) for number in numbers]
        return json_response({"results": results}, headers=NO_STORE)

    async def _one(self, caller: Caller, operation: str, number: int, act: Act) -> Json:
        try:
            letter = await self._letter(caller, number)
            await self._services.access.record(caller, letter.agent, operation, letter.task or "")
            return {"id": number, **await act(letter)}
        except BusUnavailable:
            raise
        except HeadraceError as error:
            return {"id": number, **error_answer(error).content}

    async def _letter(self, caller: Caller, number: int) -> Letter:
        letter = await self._letters.get(number)
        if letter.tenant != decode_token(caller.tenant):
            raise LetterUnknown(f"dead letter {number} does not exist")
        return letter

    async def _operator(self, request: Request, operation: str) -> Caller:
        caller = caller_of(self._services, request)
        await self._services.access.check_operator(caller, operation)
        return caller


def page_in(request: Request) -> tuple[int, int]:
    """Return the number after which the requested page begins, and its maximum of letters.

    Raises:
        InputInvalid: a query parameter breaks its rule.
    """
    query = request.query_params
    after = number_in(query, "after", 0, LARGEST_NUMBER, 0)
    return after, number_in(query, "limit", 1, _MOST, _USUAL)


def number_in_path(request: Request) -> int:
    """Return the number of the requested letter.

    Raises:
        InputInvalid: it is none.
    """
    return whole_number(request.path_params["number"], "id", 1, LARGEST_NUMBER)


def shown_page(page: LetterPage) -> ASGIApp:
    """Return the response with a page of letters."""
    content = {"letters": [letter.summary() for letter in page.letters], "next": page.next}
    return json_response(content, headers=NO_STORE)


def _numbers(body: Json) -> list[int]:
    """Return the letters' numbers in a body, each once."""
    stated = body.get("ids")
    if not isinstance(stated, list) or not 0 < len(stated) <= _AT_ONCE:
        raise InputInvalid(f"ids: must be a list of 1 to {_AT_ONCE} numbers of dead letters")
    if not all(type(one) is int and 0 < one <= LARGEST_NUMBER for one in stated):
        raise InputInvalid("ids: must be positive whole numbers")
    return list(dict.fromkeys(stated))
