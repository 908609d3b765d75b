"""Each adapter needs a library that a base install has not: which extra brings it."""

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.model.errors import HeadraceError


class MissingExtra(HeadraceError, ImportError):
    """A library is not installed; the message says how it gets there."""

    code = "missing_extra"


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Import what `extra` brings.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        names = (error.name or "").split(".")
        # Several libraries share Google's package: the second word tells them apart.
        library = ".".join(names[: 2 if names[0] == "google" else 1])
        raise MissingExtra(
            f"{library} is not installed; pip install 'headrace[{extra}]' brings it"
        ) from error
