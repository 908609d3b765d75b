"""The commands that ``headrace triggers`` and ``headrace schedules`` have in common."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from headrace_cli import declarations
from headrace_cli.declarations import Kind, some_declared_in, with_source
from headrace_cli.gateway import Gateway, with_gateway
from headrace_cli.printer import Printer, with_json

if TYPE_CHECKING:
    from headrace.client import Client
    from headrace.model.events import Json

type Change = Callable[..., Awaitable[Json | None]]
type Option = Callable[[Callable[..., None]], Callable[..., None]]

_APPLY = """Store the {kind} that FILE or agents declare; they run as you.

FILE is a headrace.yaml, or any YAML with a list of {kind}. MODULE:ATTR are agents with
@{decorator}; MODULE may be in the current directory.
"""


@dataclass(frozen=True, slots=True)
class DeclaredCommands:
    """Adds commands to the group of triggers or of schedules."""

    group: click.Group
    kind: Kind
    heads: tuple[str, ...]
    row: "Callable[[Json], tuple[str, ...]]"
    """One of them as the columns of `heads`."""

    def show(self, printer: Printer, ones: "list[Json]") -> None:
        """Print some of them as a table."""
        printer.table(self.heads, [(one, self.row(one)) for one in ones])

    def add_list(self, with_owner: "Option") -> None:
        """Add ``list``; `with_owner` adds the option that names whose they are."""

        @with_gateway
        @with_owner
        @with_json
        def command(*, gateway: Gateway, owner: str | None, printer: Printer) -> None:
            async def work(client: "Client") -> "list[Json]":
                return [one async for one in declarations.of(client, self.kind).list(owner)]

            self.show(printer, gateway.ask(work))

        summary = f"List your {self.kind}; operators see those of all owners of their tenant."
        self.group.command("list", help=summary)(command)

    def add_apply(self, decorator: str) -> None:
        """Add ``apply``, which stores what a file, or agents with `decorator`, declare."""

        @with_gateway
        @with_source
        @with_json
        def command(*, gateway: Gateway, source: str, printer: Printer) -> None:
            declared = some_declared_in(source, self.kind)
            stored = gateway.ask(lambda client: declarations.apply(client, self.kind, declared))
            self.show(printer, stored)

        summary = _APPLY.format(kind=self.kind, decorator=decorator)
        self.group.command("apply", help=summary)(command)

    def add_dead_letters(self) -> None:
        """Add ``dead-letters``, which lists those of one, by name, or shows one of them."""
        one = self.kind.removesuffix("s")

        @with_gateway
        @click.argument("name")
        @click.argument("number", metavar="[ID]", type=int, required=False)
        @with_json
        def command(*, gateway: Gateway, name: str, number: int | None, printer: Printer) -> None:
            async def work(client: "Client") -> "list[Json]":
                declared = declarations.of(client, self.kind)
                if number is not None:
                    return [await declared.dead_letter(name, number)]
                return [letter async for letter in declared.dead_letters(name)]

            letters = gateway.ask(work)
            if number is None:
                rows = [(letter, _letter_row(letter)) for letter in letters]
                printer.table(("ID", "AGENT", "AT", "REASON"), rows)
            else:
                [letter] = letters
                printer.record(letter, f"{letter['reason']}: {letter['body']}")

        summary = f"List the dead letters of your {one} NAME, or show the one with this ID."
        self.group.command("dead-letters", help=summary)(command)

    def add_change(self, verb: str, summary: str, change: "Change", *options: "Option") -> None:
        """Add the command `verb`, which makes `change` to one, by name, and shows what is left.

        `change` gets the client, the name and what `options` add.
        """

        @with_json
        def command(*, gateway: Gateway, name: str, printer: Printer, **terms: str | None) -> None:
            left = gateway.ask(lambda client: change(client, name, **terms))
            if left is None:
                printer.record({"name": name, "deleted": True}, f"deleted {name}")
            else:
                self.show(printer, [left])

        decorators: list[Option] = [*options, click.argument("name"), with_gateway]
        for decorate in decorators:
            command = decorate(command)
        self.group.command(verb, help=summary)(command)


def _letter_row(letter: "Json") -> tuple[str, ...]:
    return tuple(str(letter[name]) for name in ("id", "agent", "at", "reason"))
