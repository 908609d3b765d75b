"""The end of an error about an unknown name: the known name that is nearly the same."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return ``; did you mean NAME?``, with `prefix` before the name; empty: none is similar."""
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {prefix}{near[0]}?" if near else ""
