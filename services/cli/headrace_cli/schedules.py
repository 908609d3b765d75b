"""``headrace schedules``: messages that begin tasks at a time, at an interval, or by cron."""

from typing import TYPE_CHECKING, Any

import click

from headrace_cli.declared_commands import DeclaredCommands
from headrace_cli.gateway import Gateway, with_gateway
from headrace_cli.printer import Printer, with_json

if TYPE_CHECKING:
    from headrace.model.events import Json

_FIRING_HEADS = ("AT", "OUTCOME", "TASK", "REASON")

_with_owner = click.option("--owner", help="Owner of the schedule; for operators.")


@click.group()
def schedules() -> None:
    """Begin tasks at a time, at an interval, or by cron."""


def _row(one: "Json") -> tuple[str, ...]:
    when = f"at {one['at']}" if one["at"] else ""
    when = f"every {one['every']}" if one["every"] else when
    if one["cron"]:
        when = f"{one['cron']} ({one['timeZone'] or 'UTC'})"
    state = f"ended: {one['ended']}" if one["ended"] else one["state"]
    text = " ".join(str(part.get("text", "(data)")) for part in one["message"])
    return one["name"], one["agent"], when, one["next"] or "-", state, text


def _firing_row(one: "Json") -> tuple[str, ...]:
    return tuple(one[name] or "-" for name in ("at", "outcome", "task", "reason"))


_COMMANDS = DeclaredCommands(
    schedules, "schedules", ("NAME", "AGENT", "WHEN", "NEXT", "STATE", "MESSAGE"), _row
)


@schedules.command("create")
@with_gateway
@click.argument("name")
@click.argument("agent")
@click.argument("text")
@click.option("--at", metavar="TIME", help="Fire once, at this time, such as 2030-01-31T09:00:00Z.")
@click.option("--every", metavar="DURATION", help="Fire at this interval, such as 90s or 1h30m.")
@click.option(
    "--cron", metavar="EXPRESSION", help="Fire by cron: five or, with seconds, six fields."
)
@click.option(
    "--time-zone", "timeZone", metavar="ZONE", help="IANA time zone of --cron; default: UTC."
)
@click.option(
    "--overlap",
    type=click.Choice(("skip", "queue", "replace")),
    default="skip",
    show_default=True,
    help="What a firing does while the previous task has not ended.",
)
@click.option(
    "--max-queued",
    "maxQueued",
    type=click.IntRange(1),
    help="Maximum number of firings that wait with --overlap queue; default: 10.",
)
@click.option("--jitter", type=click.FloatRange(0), help="Maximum random delay, in seconds.")
@click.option("--end-at", "endAt", metavar="TIME", help="Do not fire from this time on.")
@click.option(
    "--max-firings", "maxFirings", type=click.IntRange(1), help="End after this number of tasks."
)
@click.option(
    "--context", "contextId", help="Conversation of the tasks; default: each has its own."
)
@click.option("--answers", metavar="SUBJECT", help="Publish the tasks' answers on SUBJECT.")
@click.option(
    "--answers-stream", metavar="STREAM", help="JetStream stream that stores the answers."
)
@click.option(
    "--answers-what",
    type=click.Choice(("end", "artifacts", "events")),
    help="Which events of the tasks are published; default: their end.",
)
@click.option(
    "--answers-mode",
    type=click.Choice(("structured", "binary")),
    help="The form of the CloudEvents; default: structured.",
)
@with_json
def create(
    *,
    gateway: Gateway,
    name: str,
    agent: str,
    text: str,
    printer: Printer,
    **terms: Any,  # noqa: ANN401 - members of a schedule, as click hands them over
) -> None:
    """Have AGENT begin a task with TEXT whenever the schedule NAME fires.

    A schedule of that name is replaced. Exactly one of --at, --every and --cron is required.
    """
    stated = {name: terms.pop(f"answers_{name}") for name in ("stream", "what", "mode")}
    stated["subject"] = terms.pop("answers")
    rule = {name: value for name, value in stated.items() if value is not None}
    if rule and "subject" not in rule:
        raise click.UsageError("--answers is required with its other options")
    if rule:
        terms["answers"] = rule
    members = {member: value for member, value in terms.items() if value is not None}
    schedule = {"name": name, "agent": agent, "message": text, **members}
    stored = gateway.ask(lambda client: client.schedules.apply(schedule))
    _COMMANDS.show(printer, [stored])


_COMMANDS.add_list(_with_owner)


@schedules.command("get")
@with_gateway
@click.argument("name")
@_with_owner
@with_json
def get(*, gateway: Gateway, name: str, owner: str | None, printer: Printer) -> None:
    """Show the schedule NAME and the results of its last firings."""
    found = gateway.ask(lambda client: client.schedules.get(name, owner))
    _COMMANDS.show(printer, [found])
    if not printer.as_json and found["firings"]:
        rows = [(one, _firing_row(one)) for one in found["firings"]]
        printer.table(_FIRING_HEADS, rows)


_COMMANDS.add_apply("schedule")
_COMMANDS.add_change(
    "pause",
    "Pause the schedule NAME until it is resumed.",
    lambda client, name, **terms: client.schedules.pause(name, **terms),
    _with_owner,
)
_COMMANDS.add_change(
    "resume",
    "Resume the paused schedule NAME.",
    lambda client, name, **terms: client.schedules.resume(name, **terms),
    _with_owner,
)
_COMMANDS.add_change(
    "run", "Fire the schedule NAME once, now.", lambda client, name: client.schedules.run_now(name)
)


@schedules.command("backfill")
@with_gateway
@click.argument("name")
@click.option("--from", "start", metavar="TIME", required=True, help="The first time.")
@click.option(
    "--to", "end", metavar="TIME", required=True, help="The last time; not later than now."
)
@click.option(
    "--overlap",
    type=click.Choice(("skip", "queue", "replace")),
    default="queue",
    show_default=True,
    help="What a firing does while the previous task has not ended.",
)
@with_json
def backfill(
    *,
    gateway: Gateway,
    name: str,
    printer: Printer,
    **terms: Any,  # noqa: ANN401 - as click hands them over
) -> None:
    """Fire the schedule NAME for each of its times in a range that is over.

    No second task begins for a time whose task has already begun.
    """
    number = gateway.ask(lambda client: client.schedules.back_fill(name, **terms))
    printer.record({"name": name, "firings": number}, f"{name} fires for {number} times")


_COMMANDS.add_dead_letters()
_COMMANDS.add_change(
    "delete",
    "Delete the schedule NAME; tasks that it began continue.",
    lambda client, name, **terms: client.schedules.delete(name, **terms),
    _with_owner,
)
