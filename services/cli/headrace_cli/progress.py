"""A progress bar for what takes long: on stderr, if that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

type Done = Callable[[int], None]
"""Takes how many of the bar's steps are done."""


@contextmanager
def progress(title: str, total: int, *, is_shown: bool = True) -> Iterator[Done]:
    """Show a bar of `total` steps during the block, and remove it at the end.

    Nothing is shown if stderr is no terminal, without rich, and unless `is_shown`. Lines that the
    block writes to ``sys.stdout`` and ``sys.stderr`` appear above the bar.
    """
    bar = _bar() if is_shown and sys.stderr.isatty() else None
    if bar is None:
        yield lambda _: None
        return
    with bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


def _bar() -> "Progress | None":
    try:
        from rich import progress as bars  # noqa: PLC0415 - an extra
        from rich.console import Console  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    return bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
