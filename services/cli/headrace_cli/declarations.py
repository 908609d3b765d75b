"""Triggers and schedules that a file or agents in code declare, and their way to a gateway."""

import asyncio
import sys
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from headrace.model.errors import HeadraceError
from headrace_cli.failures import CannotStart
from headrace_cli.services import check_target, import_from_here, module_of

if TYPE_CHECKING:
    from headrace.client import Client, ClientDeclarations
    from headrace.model.events import Json

type Kind = Literal["triggers", "schedules"]

KINDS: tuple[Kind, ...] = ("triggers", "schedules")

_MOST = 100_000
"""Maximum number of values in a file. YAML's aliases make many more of a few lines."""


def declared_in(file: Path, kind: Kind) -> "list[Json]":
    """Return the triggers or schedules that `file` declares; empty if it has none.

    Raises:
        CannotStart: it can't be read, or they are no list.
    """
    try:
        import yaml  # noqa: PLC0415 - an extra
    except ImportError as missing:
        raise CannotStart("reading YAML needs pip install 'headrace[worker]'") from missing
    try:
        content: Any = yaml.safe_load(file.read_text())
    except (OSError, ValueError, yaml.YAMLError) as invalid:
        raise CannotStart(f"{file}: {invalid}") from invalid
    except RecursionError:
        raise CannotStart(f"{file}: the file is nested too deeply") from None
    if _has_more_than(_MOST, content):
        raise CannotStart(f"{file}: the file has more than {_MOST} values or contains itself")
    declared = content.get(kind, []) if isinstance(content, dict) else None
    if not isinstance(declared, list) or not all(isinstance(one, dict) for one in declared):
        raise CannotStart(f"{file}: {kind}: must be a list of {kind}")
    return declared


def _has_more_than(most: int, content: Any) -> bool:  # noqa: ANN401 - YAML
    """Return whether `content` has more values, an alias counted as what it stands for."""
    left = [content]
    for _ in range(most):
        if not left:
            return False
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
    return bool(left)


def declared_by_code(target: str, kind: Kind, name: str = "") -> "list[Json]":
    """Import the agents of `target`, MODULE:ATTR, and return what is declared above them.

    `name` is the agent's name in the file that names the target; its own by default.

    Raises:
        CannotStart: they can't be imported, or a declaration is invalid.
    """
    import_from_here()
    try:
        with redirect_stdout(sys.stderr):  # Modules may print; stdout has what commands show.
            agents = module_of("worker", "headrace_worker.load").load(check_target(target))
    except HeadraceError as error:
        raise CannotStart(str(error)) from None
    return [
        {"name": name or agent.name, "agent": name or agent.name} | one
        for agent in agents
        for one in getattr(agent, kind)
    ]


def some_declared_in(source: str, kind: Kind) -> "list[Json]":
    """Return what `source` declares: a file, or the agents of MODULE:ATTR.

    Raises:
        CannotStart: it declares none, or as `declared_in` and `declared_by_code`.
    """
    if _is_target(source):
        if not (declared := declared_by_code(source, kind)):
            raise CannotStart(f"the agents of {source} declare no {kind}")
    elif not (declared := declared_in(Path(source), kind)):
        raise CannotStart(f"{source} declares no {kind}")
    return declared


def _is_target(source: str) -> bool:
    return ":" in source and not Path(source).exists()


with_source = click.argument("source", metavar="FILE|MODULE:ATTR")


def of(client: "Client", kind: Kind) -> "ClientDeclarations":
    """Return the client's triggers or schedules."""
    return client.triggers if kind == "triggers" else client.schedules


async def apply(client: "Client", kind: Kind, declared: "list[Json]") -> "list[Json]":
    """Make what is declared, or change it, as the client's caller. Return all of it.

    Raises:
        CannotStart: two have the same name, and one would replace the other; or the gateway
            refused one, which the error names.
    """
    from headrace.client import RequestRefused  # noqa: PLC0415 - an extra

    for name, number in Counter(str(one.get("name")) for one in declared).items():
        if number > 1:
            raise CannotStart(f"two {kind} are named {name!r}; names must be unique")
    put = of(client, kind).apply

    async def put_named(one: "Json") -> "Json":
        try:
            return await put(one)
        except RequestRefused as refused:
            raise CannotStart(f"{one.get('name')}: {refused}") from refused

    return list(await asyncio.gather(*map(put_named, declared)))
