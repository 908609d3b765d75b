"""Options beyond the protocol, from ``forwardedProps.headrace`` or the query."""

from collections.abc import Mapping

from headrace.model.events import Json
from headrace_gateway.json_errors import InputInvalid

RAW = "raw"
"""Send each A2A event of the run's log as a RAW event."""
THINKING = "thinking"
"""Send THINKING events instead of REASONING events, for clients that predate the latter."""

EXTRAS = (RAW, THINKING)

_YES, _NO = ("true", "1", ""), ("false", "0")


def wants_extra(forwarded_props: object, extra: str) -> bool:
    """Return whether a run's forwardedProps request `extra`."""
    ours = forwarded_props.get("headrace") if isinstance(forwarded_props, dict) else None
    return isinstance(ours, dict) and ours.get(extra) is True


def in_query(query: Mapping[str, str]) -> frozenset[str]:
    """Return the extras that a request's query names.

    Raises:
        InputInvalid: a value is neither true nor false.
    """
    return frozenset(extra for extra in EXTRAS if is_set(query, extra))


def is_set(query: Mapping[str, str], name: str) -> bool:
    """Return whether a request's query sets the flag `name`; a name without a value is true.

    Raises:
        InputInvalid: the value is neither true nor false.
    """
    value = query.get(name, "false").lower()
    if value not in _YES + _NO:
        raise InputInvalid(f"{name}: must be true or false")
    return value in _YES


def with_extras(forwarded_props: object, extras: frozenset[str]) -> object:
    """Return a run's forwardedProps with `extras` added.

    Raises:
        InputInvalid: forwardedProps, or ``headrace`` in it, is not an object.
    """
    if not extras:
        return forwarded_props
    props = _object({} if forwarded_props is None else forwarded_props, "forwardedProps")
    ours = _object(props.get("headrace", {}), "forwardedProps.headrace")
    return {**props, "headrace": {**ours, **dict.fromkeys(sorted(extras), True)}}


def _object(value: object, name: str) -> Json:
    if not isinstance(value, dict):
        raise InputInvalid(f"{name}: must be an object to use the query's extra fields")
    return value
