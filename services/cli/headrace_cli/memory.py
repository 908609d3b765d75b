"""``headrace memory``: what agents remember, for operators, over NATS."""

import sys
from collections.abc import Callable
from functools import wraps

import click

from headrace.jetstream.agent_memory import AgentMemory, HashedContext, MemoryFilter, MemoryKey
from headrace.jetstream.connection import Bus
from headrace.model.errors import InvalidName
from headrace.model.queues import DEFAULT_TENANT
from headrace.model.subjects import check_agent_name, decode_token, encode_token
from headrace.model.task import check_task_id
from headrace_cli.on_bus import CommandRefused, on_bus, with_nats
from headrace_cli.printer import Printer, with_json

_COLUMNS = ("OWNER", "CONTEXT", "TASK", "KEY", "BYTES", "REVISION")


@click.group()
def memory() -> None:
    """Show and delete what agents remember; for operators.

    A value belongs to a task, to a conversation (it has no TASK), or to an owner (it has no CONTEXT
    either).
    """


def _with_filter(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say whose memory is meant."""

    @click.option("--agent", required=True, metavar="NAME", help="The agent that remembers.")
    @click.option("--owner", metavar="OWNER", help="Only this owner's.")
    @click.option("--context", metavar="CONTEXT", help="Only this conversation's and its tasks'.")
    @click.option("--task", metavar="TASK", help="Only this task's.")
    @click.option("--tenant", default=DEFAULT_TENANT, metavar="TENANT", show_default=True)
    @wraps(command)
    def filtered(  # click's options
        *,
        agent: str,
        owner: str | None,
        context: str | None,
        task: str | None,
        tenant: str,
        **options: object,
    ) -> None:
        # The list shows a hash in place of an id that is too long.
        context = None if context is None else HashedContext.of(context) or context
        wanted = MemoryFilter(
            _checked("tenant", encode_token, tenant),
            _checked("agent", check_agent_name, agent),
            None if owner is None else _checked("owner", encode_token, owner),
            context,
            None if task is None else _checked("task", check_task_id, task),
        )
        command(wanted=wanted, **options)

    return filtered


def _checked(option: str, check: Callable[[str], str], name: str) -> str:
    """Return what `check` returns for the `name` that an option has."""
    try:
        return check(name)
    except InvalidName as invalid:
        raise click.BadOptionUsage(option, f"--{option} {name!r} {invalid.rule}") from None


@memory.command("list")
@with_nats
@_with_filter
@with_json
def list_(nats_url: str | None, wanted: MemoryFilter, printer: Printer) -> None:
    """List the keys that an agent has values for."""
    found = on_bus(nats_url, lambda bus: AgentMemory(bus).find(wanted))
    rows = [_facts(one) for one in found]
    printer.table(_COLUMNS, [(row, tuple(map(str, row.values()))) for row in rows])


@memory.command()
@with_nats
@_with_filter
@click.argument("key")
def show(nats_url: str | None, wanted: MemoryFilter, key: str) -> None:
    """Write the value of KEY, as it is stored, to standard output."""

    async def read(bus: Bus) -> bytes:
        store = AgentMemory(bus)
        found = [one for one in await store.find(wanted) if one.key == key]
        if len(found) != 1:
            raise CommandRefused(
                f"{len(found)} values have key {key!r}; name one with --owner, --context and --task"
            )
        value = await store.get(found[0].scope, key)
        return b"" if value is None else value.data

    sys.stdout.buffer.write(on_bus(nats_url, read))


@memory.command()
@with_nats
@_with_filter
@click.argument("keys", metavar="[KEY...]", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="Delete every key that matches.")
@with_json
def delete(
    nats_url: str | None,
    wanted: MemoryFilter,
    keys: tuple[str, ...],
    *,
    is_all: bool,
    printer: Printer,
) -> None:
    """Delete values, and overwrite their bytes in NATS's files."""
    if bool(keys) == is_all:
        raise click.UsageError("name the keys, or use --all")

    async def erase(bus: Bus) -> list[MemoryKey]:
        store = AgentMemory(bus)
        if is_all:
            return await store.erase_all(wanted)
        found = [one for one in await store.find(wanted) if one.key in keys]
        if missing := set(keys) - {one.key for one in found}:
            raise CommandRefused(f"no value has key {min(missing)!r}; nothing was deleted")
        for one in found:
            await store.erase_key(one.scope, one.key)
        return found

    for one in on_bus(nats_url, erase):
        printer.record(_facts(one), f"deleted {one.key}")


def _facts(one: MemoryKey) -> dict[str, object]:
    scope = one.scope
    return {
        "owner": decode_token(scope.owner),
        "context": scope.context or "",
        "task": scope.task or "",
        "key": one.key,
        "bytes": one.size,
        "revision": one.revision,
    }
