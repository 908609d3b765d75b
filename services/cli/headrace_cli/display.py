"""How a task's output looks: plain text for pipes, colours and cards on a terminal."""

import sys
from typing import TYPE_CHECKING, Protocol

import click

from headrace_cli.tables import one_line, printable, replace_unencodable

if TYPE_CHECKING:
    from rich.console import Console


class Display(Protocol):
    """Shows what agents write, without the control sequences that it may contain."""

    def write(self, text: str) -> None:
        """Show a piece of the answer, line breaks included."""

    def think(self, text: str, depth: int = 0) -> None:
        """Show a piece of reasoning, line breaks included; `depth` as in `remark`."""

    def remark(self, line: str, depth: int = 0) -> None:
        """Show a line about the task, or about a child task at that `depth`."""

    def tool_call(self, name: str, arguments: str, depth: int = 0) -> None:
        """Show a tool call."""

    def tool_result(self, result: str, *, is_error: bool, depth: int = 0) -> None:
        """Show a tool's result."""


class PlainDisplay:
    """Writes the answer to stdout, and everything else to stderr."""

    def write(self, text: str) -> None:
        """Write to stdout at once."""
        sys.stdout.write(printable(text))
        sys.stdout.flush()

    def think(self, text: str, depth: int = 0) -> None:  # noqa: ARG002 - for people alone
        """Write to stderr, dimmed if that is a terminal."""
        click.echo(click.style(printable(text), dim=True), err=True, nl=False)

    def remark(self, line: str, depth: int = 0) -> None:  # noqa: ARG002 - for people alone
        """Write a line to stderr."""
        click.echo(one_line(line), err=True)

    def tool_call(self, name: str, arguments: str, depth: int = 0) -> None:  # noqa: ARG002 - as above
        """Write a line to stderr."""
        self.remark(f"> {name} {arguments}")

    def tool_result(self, result: str, *, is_error: bool, depth: int = 0) -> None:  # noqa: ARG002 - the text says so
        """Write a line to stderr."""
        self.remark(f"< {result}")


class RichDisplay:
    """Draws on a terminal."""

    def __init__(self, console: "Console") -> None:
        """Draw on `console`."""
        self._console = console
        self._thinks_mid_line = False

    def write(self, text: str) -> None:
        """Print text as it comes."""
        self._end_thought()
        self._print(text)

    def think(self, text: str, depth: int = 0) -> None:
        """Print dimmed text, each of its lines indented by `depth`."""
        first, *others = text.splitlines(keepends=True) or [""]
        lines = [f"{_indent(depth)}{line}" for line in others]
        self._print(
            "".join([first if self._thinks_mid_line else f"{_indent(depth)}{first}", *lines]),
            "dim italic",
        )
        self._thinks_mid_line = not text.endswith("\n")

    def remark(self, line: str, depth: int = 0) -> None:
        """Print a line, indented by its depth."""
        self._end_thought()
        self._print(f"{_indent(depth)}{one_line(line)}\n", "cyan dim")

    def tool_call(self, name: str, arguments: str, depth: int = 0) -> None:
        """Draw a card."""
        self._card(name, arguments, "blue", depth)

    def tool_result(self, result: str, *, is_error: bool, depth: int = 0) -> None:
        """Draw a card, in red for an error."""
        title, style = ("error", "red") if is_error else ("result", "green")
        self._card(title, result, style, depth)

    def _end_thought(self) -> None:
        """End a line of reasoning, so that what follows begins a line of its own."""
        if self._thinks_mid_line:
            self._thinks_mid_line = False
            self._print("\n")

    def _print(self, text: str, style: str = "") -> None:
        from rich.text import Text  # noqa: PLC0415 - an extra

        self._console.print(Text(printable(text), style=style), end="", soft_wrap=True)

    def _card(self, title: str, body: str, style: str, depth: int) -> None:
        from rich.padding import Padding  # noqa: PLC0415 - an extra
        from rich.panel import Panel  # noqa: PLC0415 - an extra
        from rich.text import Text  # noqa: PLC0415 - an extra

        self._end_thought()
        content, head = Text(printable(body)), Text(one_line(title))
        card = Panel(content, title=head, title_align="left", border_style=style, expand=False)
        self._console.print(Padding.indent(card, len(_indent(depth))))


def _indent(depth: int) -> str:
    return "  " * depth


def display_of_terminal() -> Display:
    """Return a drawing display if stdout is a terminal and rich is installed, else a plain one."""
    replace_unencodable(sys.stdout)
    if not sys.stdout.isatty():
        return PlainDisplay()
    try:
        from rich.console import Console  # noqa: PLC0415 - an extra
    except ImportError:
        return PlainDisplay()
    return RichDisplay(Console(highlight=False))
