"""``headrace agents``: list agents, and route their new tasks to versions."""

from collections.abc import Awaitable, Callable, Mapping

import click

from headrace.agent_versions import AgentVersions, VersionState
from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.model.agent_route import AgentRoute, Candidate
from headrace.model.errors import InvalidName
from headrace.model.subjects import encode_token
from headrace.wait_for import wait_for
from headrace_cli.gateway import Gateway, with_gateway
from headrace_cli.on_bus import on_bus, with_nats
from headrace_cli.printer import Printer, with_json

_ALL = 100

_UNPINNED = "(unpinned)"


@click.group(invoke_without_command=True)
@with_gateway
@with_json
@click.pass_context
def agents(ctx: click.Context, gateway: Gateway, printer: Printer) -> None:
    """List agents and whether a worker serves them.

    The subcommands are for agents whose workers pin their tasks to a version. They work directly
    over NATS, even if no gateway answers.
    """
    if ctx.invoked_subcommand is not None:
        return
    found = gateway.ask(lambda client: client.agents())
    rows = [
        (
            {
                "name": one.name,
                "available": one.is_available,
                "default": one.is_default,
                "description": one.description,
            },
            (one.name, "available" if one.is_available else "no worker", one.description),
        )
        for one in found
    ]
    printer.table(("AGENT", "STATE", "DESCRIPTION"), rows)


@agents.command()
@click.argument("agent")
@with_nats
@with_json
def versions(agent: str, nats_url: str | None, printer: Printer) -> None:
    """List AGENT's versions: who gets new tasks, and how many tasks are open with each."""
    found = _carried_out(nats_url, lambda versions: versions.list(agent))
    rows = [(one.shown(), _row(one)) for one in found]
    printer.table(("VERSION", "NEW TASKS", "OPEN TASKS", "WORKERS", "CONTINUED BY"), rows)


def _headers(_: click.Context, __: click.Parameter, stated: tuple[str, ...]) -> Mapping[str, str]:
    found = dict[str, str]()
    for text in stated:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE")
        found[name.strip().lower()] = value.strip()
    return found


def _tenants(_: click.Context, __: click.Parameter, stated: tuple[str, ...]) -> list[str]:
    try:
        return [encode_token(tenant) for tenant in stated]
    except InvalidName as error:
        raise click.BadParameter(str(error)) from error


@agents.command()
@click.argument("agent")
@click.argument("version")
@click.option(
    "--percent",
    type=click.IntRange(0, _ALL),
    help="Share of the contexts whose new tasks go to VERSION.",
)
@click.option(
    "--tenant",
    "tenants",
    multiple=True,
    callback=_tenants,
    help="Tenant whose new tasks go to VERSION. Repeatable.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_headers,
    help="Requests with this header go to VERSION. Repeatable.",
)
@with_nats
@with_json
def route(  # noqa: PLR0913  # one parameter per flag is how click calls
    *,
    agent: str,
    version: str,
    percent: int | None,
    tenants: list[str],
    headers: Mapping[str, str],
    nats_url: str | None,
    printer: Printer,
) -> None:
    """Send AGENT's new tasks to VERSION: all, or those that the options name.

    Tasks that another version began stay with it. '' is the version of workers that pin none.
    """
    candidate = Candidate(
        version=version, percent=percent or 0, tenants=tenants, headers=dict(headers)
    )
    is_partial = percent is not None or tenants or headers

    def change(versions: AgentVersions) -> Awaitable[AgentRoute]:
        if is_partial:
            return versions.try_out(agent, candidate)
        return versions.promote(agent, version)

    _print_route(printer, agent, _carried_out(nats_url, change))


@agents.command()
@click.argument("agent")
@click.option(
    "--move", is_flag=True, help="Also continue its tasks with the version that new ones go to."
)
@with_nats
@with_json
def rollback(*, agent: str, move: bool, nats_url: str | None, printer: Printer) -> None:
    """Send AGENT's new tasks to the previous version.

    A candidate, which gets some of the new tasks, gets no more. Without one, the version that was
    current before gets all of them again.
    """
    done = _carried_out(nats_url, lambda versions: versions.roll_back(agent, move=move))
    _print_route(printer, agent, done.route)


@agents.command()
@click.argument("agent")
@click.argument("version")
@click.option("--move-to", metavar="VERSION", help="Version that continues its open tasks.")
@with_nats
@with_json
def retire(
    *, agent: str, version: str, move_to: str | None, nats_url: str | None, printer: Printer
) -> None:
    """Remove VERSION of AGENT, which gets no new tasks and has no open ones.

    It is refused while tasks are open, unless --move-to names a version that continues them.
    """

    async def work(versions: AgentVersions) -> tuple[int, int]:
        serving = len(versions.directory.serving(agent, version))
        return await versions.retire(agent, version, move_to=move_to), serving

    moved, serving = _carried_out(nats_url, work)
    text = f"{agent}: version {_name(version)} is retired"
    if moved:
        text += f"; version {_name(move_to or '')} continues {moved} tasks"
    if serving:
        text += f"; stop its workers, of which {serving} still run: each announces it again"
    printer.record({"agent": agent, "version": version, "movedTasks": moved}, text)


def _carried_out[Result](
    nats_url: str | None, work: Callable[[AgentVersions], Awaitable[Result]]
) -> Result:
    async def carried_out(bus: Bus) -> Result:
        directory = Directory(bus)
        # A frozen replica of the bucket does not answer, but another one will.
        await wait_for("the agents' bucket", directory.read, bus.settings.startup_timeout)
        return await work(AgentVersions(bus, directory))

    return on_bus(nats_url, carried_out)


def _print_route(printer: Printer, agent: str, route: AgentRoute) -> None:
    text = f"{agent}: new tasks go to version {_name(route.current)}"
    if (candidate := route.candidate) is not None:
        text += f", {_rule(candidate)} to {_name(candidate.version)}"
    printer.record({"agent": agent, **route.shown()}, text)


def _row(state: VersionState) -> tuple[str, ...]:
    if state.is_current:
        share = "all others"
    else:
        share = "none" if state.candidate is None else _rule(state.candidate)
    continued = "" if state.continued_by is None else _name(state.continued_by)
    open_tasks = "unknown" if state.open_tasks is None else str(state.open_tasks)
    workers = str(len(state.workers))
    return _name(state.version), share, open_tasks, workers, continued


def _rule(candidate: Candidate) -> str:
    rule = candidate.shown()
    parts = [f"{rule['percent']} %"] if rule["percent"] else []
    parts += [f"tenant {tenant}" for tenant in rule["tenants"]]
    parts += [f"{name}={value}" for name, value in rule["headers"].items()]
    return ", ".join(parts) or "none"


def _name(version: str) -> str:
    return version or _UNPINNED
