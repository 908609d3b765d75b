"""The choice of dead letters for a command, and its confirmation by the operator."""

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps

import click

from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable, HeadraceError
from headrace.tasks.dead_letters import KINDS, Kind, Letter, LetterFilter, Letters, LetterUnknown
from headrace_cli.on_bus import on_bus
from headrace_cli.printer import Printer
from headrace_cli.progress import progress
from headrace_cli.tables import one_line

type Act = Callable[[Bus, Letter], Awaitable[str]]
"""Processes one letter; returns what it did."""

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Choice:
    """The letters with the given numbers, or all that match the filters."""

    numbers: tuple[int, ...]
    wanted: LetterFilter
    sure: bool

    def carry_out(
        self,
        nats_url: str | None,
        printer: Printer,
        verb: str,
        act: Act,
        *,
        is_loss: bool = False,
    ) -> None:
        """Call `act` for each letter, after a confirmation if there are many or data would be lost.

        If one letter fails, the others are still processed; then the command exits with 1.
        """
        letters, failed = on_bus(nats_url, self._find)
        if letters and not self.sure and (is_loss or not self.numbers):
            _ask(verb, letters)

        async def each(bus: Bus) -> int:
            succeeded = 0
            with progress(verb, len(letters), is_shown=not printer.as_json) as done:
                for number, letter in enumerate(letters, 1):
                    succeeded += await _done(bus, letter, act, printer)
                    done(number)
            return succeeded

        done = on_bus(nats_url, each)
        if not letters and not failed:
            click.echo("no matching dead letters", err=True)
        if failed or done < len(letters):
            sys.exit(1)

    async def _find(self, bus: Bus) -> tuple[list[Letter], bool]:
        """Return the letters, and whether some of the given numbers are missing."""
        if not self.numbers:
            return [letter async for letter in Letters(bus).find(self.wanted)], False
        found, missing = list[Letter](), False
        for number in dict.fromkeys(self.numbers):
            try:
                found.append(await Letters(bus).get(number))
            except LetterUnknown as unknown:
                click.echo(one_line(f"{number}: {unknown}"), err=True)
                missing = True
        return found, missing


async def _done(bus: Bus, letter: Letter, act: Act, printer: Printer) -> bool:
    try:
        outcome = await act(bus, letter)
        printer.record({"id": letter.number, "outcome": outcome}, f"{letter.number}: {outcome}")
    except BusUnavailable:
        raise
    except HeadraceError as refusal:
        click.echo(one_line(f"{letter.number}: {refusal}"), err=True)
        return False
    return True


def _ask(verb: str, letters: list[Letter]) -> None:
    for letter in letters[:_SHOWN]:
        line = f"{letter.number}: {letter.kind} of {letter.agent}: {letter.content.reason}"
        click.echo(one_line(line), err=True)
    if len(letters) > _SHOWN:
        click.echo(f"… and {len(letters) - _SHOWN} more", err=True)
    many = "this dead letter" if len(letters) == 1 else f"these {len(letters)} dead letters"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{verb} {many}? There is no terminal to confirm on; use --yes")
    click.confirm(f"{verb} {many}?", abort=True, err=True)


def with_filters(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` the options that filter letters, as the parameter ``wanted``."""

    @click.option("--tenant", help="Only dead letters of this tenant.")
    @click.option("--agent", help="Only dead letters of this agent.")
    @click.option("--kind", type=click.Choice(KINDS), help="Only dead letters of this kind.")
    @click.option("--task", help="Only dead letters of this task.")
    @wraps(command)
    def filtered(
        tenant: str | None, agent: str | None, kind: Kind | None, task: str | None, **rest: object
    ) -> None:
        command(wanted=LetterFilter(tenant, agent, kind, task), **rest)

    return filtered


def with_choice(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` the arguments that choose letters, as the parameter ``choice``."""

    @click.argument("numbers", metavar="[ID]...", type=click.IntRange(1), nargs=-1)
    @click.option(
        "--all",
        "all_",
        is_flag=True,
        help="Select all dead letters, or all that match the filters.",
    )
    @click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
    @with_filters
    @wraps(command)
    def chosen(
        numbers: tuple[int, ...], wanted: LetterFilter, *, all_: bool, yes: bool, **rest: object
    ) -> None:
        if all_ == bool(numbers):
            raise click.UsageError("missing argument: IDs of dead letters, or --all")
        if numbers and wanted != LetterFilter():
            raise click.UsageError("filters need --all; they can't be combined with IDs")
        command(choice=Choice(numbers, wanted, yes), **rest)

    return chosen
