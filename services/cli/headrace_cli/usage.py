"""``headrace usage``: what runs have used."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import click

from headrace.model.messages import MOST_USAGE_DAYS, USAGE_GROUPS
from headrace_cli.gateway import Gateway, with_gateway
from headrace_cli.printer import Printer, with_json

_TENANT = "tenant"
_COUNTS: Mapping[str, str] = {
    "inputTokens": "INPUT",
    "outputTokens": "OUTPUT",
    "tokens": "TOKENS",
    "cost": "COST",
    "runs": "RUNS",
    "runSeconds": "SECONDS",
}
"""Members of a row, and their heads in the table."""


class _Day(click.ParamType[str]):
    """A date, or ``today``."""

    name = "day"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the date as YYYY-MM-DD."""
        if value == "today":
            return _today()
        try:
            return datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC).date().isoformat()
        except ValueError:
            self.fail(f"{value!r} is not a date, YYYY-MM-DD", param, ctx)


@click.command()
@with_gateway
@click.option(
    "--by",
    type=click.Choice((_TENANT, *USAGE_GROUPS)),
    multiple=True,
    default=("agent",),
    show_default=True,
    help="What each row shows; repeatable. root: the agent that delegated first.",
)
@click.option("--from", "first", type=_Day(), metavar="DAY", help="First day; default: --days.")
@click.option(
    "--to", "last", type=_Day(), default="today", show_default=True, metavar="DAY", help="Last day."
)
@click.option(
    "--days",
    type=click.IntRange(1, MOST_USAGE_DAYS),
    default=1,
    show_default=True,
    help="Number of days up to --to, unless --from is given.",
)
@click.option("--owner", help="Only this owner's usage; for operators.")
@with_json
def usage(  # noqa: PLR0913  # one parameter per flag is how click calls
    *,
    gateway: Gateway,
    by: tuple[str, ...],
    first: str | None,
    last: str,
    days: int,
    owner: str | None,
    printer: Printer,
) -> None:
    """Show the usage of runs: tokens, cost, number and duration.

    Operators see their whole tenant, others their own usage. Days are days in UTC.
    """
    groups = [group for group in by if group != _TENANT]
    begin = first or _days_before(last, days - 1)
    rows = gateway.ask(lambda client: client.usage(begin, last, groups, owner))
    heads = (*(group.upper() for group in groups), *_COUNTS.values())
    shown = [
        (
            {"from": begin, "to": last, **row},
            tuple(_cell(row.get(n, "")) for n in (*groups, *_COUNTS)),
        )
        for row in rows
    ]
    printer.table(heads, shown)


def _cell(value: object) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _days_before(day: str, days: int) -> str:
    return (datetime.fromisoformat(day).date() - timedelta(days)).isoformat()
