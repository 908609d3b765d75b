"""What a client may ask for beyond the protocol: ``forwardedProps.headrace``, or the query."""

from collections.abc import Mapping

from headrace.model.events import Json
from headrace_gateway.json_errors import InputInvalid

RAW = "raw"
"""Each A2A event of the run's log, as RAW."""
THINKING = "thinking"
"""THINKING events instead of REASONING ones, for clients older than these."""

EXTRAS = (RAW, THINKING)

_YES, _NO = ("true", "1", ""), ("false", "0")


def asked_for(forwarded_props: object, extra: str) -> bool:
    """Tell whether a run's forwardedProps ask for `extra`."""
    ours = forwarded_props.get("headrace") if isinstance(forwarded_props, dict) else None
    return isinstance(ours, dict) and ours.get(extra) is True


def in_query(query: Mapping[str, str]) -> frozenset[str]:
    """Return which extras a request's query asks for.

    Raises:
        InputInvalid: it says neither yes nor no.
    """
    return frozenset(extra for extra in EXTRAS if says_yes(query, extra))


def says_yes(query: Mapping[str, str], name: str) -> bool:
    """Tell whether a request's query says `name`; a name alone is a yes.

    Raises:
        InputInvalid: it says neither yes nor no.
    """
    said = query.get(name, "false").lower()
    if said not in _YES + _NO:
        raise InputInvalid(f"{name}: must be true or false")
    return said in _YES


def with_extras(forwarded_props: object, extras: frozenset[str]) -> object:
    """Return a run's forwardedProps as they would be if they asked for `extras` too.

    Raises:
        InputInvalid: they are no object, or hold none where ours stands.
    """
    if not extras:
        return forwarded_props
    props = _object({} if forwarded_props is None else forwarded_props, "forwardedProps")
    ours = _object(props.get("headrace", {}), "forwardedProps.headrace")
    return {**props, "headrace": {**ours, **dict.fromkeys(sorted(extras), True)}}


def _object(value: object, name: str) -> Json:
    if not isinstance(value, dict):
        raise InputInvalid(f"{name}: must be an object where the query asks for more")
    return value
