"""The development stack's output: the children's lines on stderr, each with its child's name.

A thread writes, so that a terminal or pipe without a reader never blocks the supervision. Lines
that do not fit into its queue are counted, and the count is shown.
"""

import os
import queue
import select
import sys
import threading

import click

from headrace_cli.tables import printable

_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_cyan", "bright_green")
_WIDTH = len("task-state-0")
_QUEUED = 10_000
_FLUSH_TIMEOUT = 1.0


class Console:
    """Shows lines with the name of their source."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Write to `descriptor` (stderr), in colour on a terminal without NO_COLOR (no-color.org).

        `sys.stderr` is not used: a thread that blocks in it keeps Python from exiting.
        """
        self._descriptor = sys.stderr.fileno() if descriptor is None else descriptor
        self._coloured = os.isatty(self._descriptor) and not os.environ.get("NO_COLOR")
        self._lines: queue.Queue[str | None] = queue.Queue(_QUEUED)
        self._skipped = 0
        self._colour_of: dict[str, str] = {}
        self._writer = threading.Thread(target=self._write_all, name="console", daemon=True)
        self._writer.start()

    def show(self, name: str, line: str) -> None:
        """Show one line of `name`; never waits."""
        try:
            self._lines.put_nowait(f"{self._label(name)} {printable(line)}\n")
        except queue.Full:
            self._skipped += 1

    def close(self) -> None:
        """Write what is queued, as far as it is read."""
        try:
            self._lines.put(None, timeout=_FLUSH_TIMEOUT)
        except queue.Full:
            return
        self._writer.join(_FLUSH_TIMEOUT)

    def _label(self, name: str) -> str:
        label = f"{name:<{_WIDTH}} |"
        if not self._coloured:
            return label
        colour = self._colour_of.setdefault(name, _COLOURS[len(self._colour_of) % len(_COLOURS)])
        return click.style(label, fg=colour)

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._write((self._note_skipped() + line).encode(errors="replace"))
            except OSError:  # The reader is gone; the stack continues without.
                return

    def _write(self, text: bytes) -> None:
        while text:
            try:
                text = text[os.write(self._descriptor, text) :]
            except BlockingIOError:  # Another process made the terminal non-blocking.
                select.select([], [self._descriptor], [])

    def _note_skipped(self) -> str:
        if not self._skipped:
            return ""
        skipped, self._skipped = self._skipped, 0
        return f"{self._label('headrace')} {skipped} lines skipped: the terminal is too slow\n"
