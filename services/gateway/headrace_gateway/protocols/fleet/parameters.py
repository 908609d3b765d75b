"""Parameters in requests' queries and headers."""

from starlette.datastructures import QueryParams
from starlette.requests import Request

from headrace_gateway.json_errors import InputInvalid
from headrace_gateway.streaming.sse import EVENT_STREAM

LARGEST_NUMBER = 2**63 - 1
"""The largest number of a stored message that a client may name."""


def wants_events(request: Request) -> bool:
    """Return whether the client accepts server-sent events."""
    return EVENT_STREAM in request.headers.get("accept", "")


def number_in(query: QueryParams, name: str, least: int, most: int, usual: int) -> int:
    """Return the number of that name in the query, or the usual one.

    Raises:
        InputInvalid: it is not a whole number from `least` to `most`.
    """
    stated = query.get(name)
    return usual if stated is None else whole_number(stated, name, least, most)


def whole_number(stated: str, name: str, least: int, most: int) -> int:
    """Return the number in the text of the parameter `name`.

    Raises:
        InputInvalid: it is not a whole number from `least` to `most`.
    """
    is_number = stated.isascii() and stated.isdecimal() and len(stated) <= len(str(most))
    if not is_number or not least <= int(stated) <= most:
        raise InputInvalid(f"{name}: must be a whole number from {least} to {most}")
    return int(stated)
