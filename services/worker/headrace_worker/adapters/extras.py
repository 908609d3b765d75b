"""Optional libraries of adapters, and the extras that install them."""

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.model.errors import HeadraceError


class MissingExtra(HeadraceError, ImportError):
    """A library is not installed; the message names the extra that installs it."""

    code = "missing_extra"


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Import libraries of `extra` in the block.

    Raises:
        MissingExtra: A library is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        names = (error.name or "").split(".")
        # Several libraries share the package `google`: the second part tells them apart.
        library = ".".join(names[: 2 if names[0] == "google" else 1])
        raise MissingExtra(
            f"{library} is not installed: pip install 'headrace[{extra}]'"
        ) from error
