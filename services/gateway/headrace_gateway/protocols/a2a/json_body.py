"""Bodies that must be JSON."""

import orjson
from a2a.utils.errors import JSONParseError

from headrace.model.events import Json
from headrace_gateway.refusals import Malformed, Violation


def parse(body: bytes) -> object:
    """Return what the JSON says.

    Raises:
        JSONParseError: it is no JSON; says where.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise JSONParseError(f"the body is not JSON: {error}") from None


def parse_object(body: bytes) -> Json:
    """Return the JSON object.

    Raises:
        JSONParseError: it is no JSON.
        Malformed: it is JSON, but no object.
    """
    parsed = parse(body)
    if not isinstance(parsed, dict):
        raise Malformed([Violation("", "must be an object")])
    return parsed
