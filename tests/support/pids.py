"""Which processes live."""

from collections.abc import Iterable

from headrace_cli import process_table


def living(pids: Iterable[int]) -> list[int]:
    """Return those of `pids` whose process has not ended."""
    return [pid for pid in pids if process_table.look_up(pid)]
