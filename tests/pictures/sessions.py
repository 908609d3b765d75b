"""Records terminal sessions, and draws what they show."""

import io
import re

from rich.console import Console
from rich.text import Text

from tests.support.pseudo_terminal import at_terminal
from tests.support.stack import Stack

_WIDTH = 80
_TASK = re.compile(r"(task \d+-[0-9a-f]{4})[0-9a-f]+")


def send(stack: Stack) -> str:
    """Return what a terminal shows where `headrace send` is asked something."""
    with at_terminal("send", "--agent", "shop", "nails", HEADRACE_URL=stack.url) as terminal:
        terminal.until("How many would you like?\n> ")
        terminal.type("3")
        assert terminal.end() == 0
    return terminal.output


def chat(stack: Stack) -> str:
    """Return what a terminal shows of a conversation."""
    with at_terminal("chat", "--agent", "shop", HEADRACE_URL=stack.url) as terminal:
        terminal.until("> ")
        terminal.type("nails")
        terminal.until("How many would you like?\n> ")
        terminal.type("3")
        terminal.until("Sold: 3 nails.")
        terminal.until("COMPLETED\n> ")
        terminal.end_input()
        terminal.end()
    return terminal.output


def drawn(command: str, output: str) -> str:
    """Return a terminal as SVG, with `command` and what it wrote; task ids are shortened."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"$ {command}"))
    console.print(Text.from_ansi(_TASK.sub(r"\1…", output.replace("\r\n", "\n")).rstrip()))
    svg = console.export_svg(title=command, unique_id="terminal")
    return _without_fonts(svg)


def _without_fonts(svg: str) -> str:
    """Return `svg` without the fonts that it would load from a network."""
    local = re.sub(r"@font-face \{.*?\}\n?", "", svg, flags=re.DOTALL)
    return re.sub(r"[ \t]+$", "", local, flags=re.MULTILINE).replace("Fira Code", "ui-monospace")
