"""The agents that ``headrace dev`` serves: those of the flags, or those it finds in the folder."""

import ast
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from headrace.model.errors import HeadraceError
from headrace.sdk.source import null_byte_in
from headrace_cli.dev.declarations import AgentInCode
from headrace_cli.dev.settings import DevSettings
from headrace_cli.failures import CannotStart
from headrace_cli.services import check_target, module_of

AGENTS_FILE = "headrace.yaml"
"""Declares a project's agents."""

_MAKE_AGENTS = frozenset({"*", "agent", "Agent", "Agents", "RunContext"})
"""What code of agents imports; a client may import other names of `headrace`."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A function declared with ``@agent``."""

    target: str
    """MODULE:ATTR."""
    name: str
    """The agent's id; empty if it is known only by importing the module."""


def with_agents(settings: DevSettings, folder: Path) -> DevSettings:
    """Return `settings` with the agents to serve, and the first one as the default agent.

    Without `agents` and `config`, those of the ``headrace.yaml`` in `folder` are served; without
    that file, all functions declared with ``@agent`` in its modules; without any, the demo agents,
    unless a module imports what agents are made with.

    The name of an agent that `agents` names is read from its module's source, which is not run;
    where it is not there to read, the gateways choose the default.

    Raises:
        CannotStart: the file or a module is invalid, both flags were given, or the modules may have
            agents that can't be found.
    """
    given = settings.model_fields_set
    if settings.config and "agents" in given:
        raise CannotStart("--agents and --config can't be combined")
    if "agents" in given:
        first, _, _ = check_target(settings.agents).partition(",")
        return _completed(settings, _name_of(first, folder))
    file = settings.config
    if not file and "config" not in given and (folder / AGENTS_FILE).is_file():
        file = AGENTS_FILE
    if file:
        return _completed(settings, _first_in(folder / file), config=file)
    modules = [path for path in sorted(folder.glob("*.py")) if _may_declare(path.stem)]
    found = [one for path in modules for one in _declared_in(path)]
    if not found:
        _check_none_is_meant(modules)
        return settings
    return _completed(settings, found[0].name, agents=",".join(one.target for one in found))


def _completed(settings: DevSettings, first: str, **served: str) -> DevSettings:
    return settings.model_copy(update={"default_agent": settings.default_agent or first, **served})


def targets_of(settings: DevSettings, folder: Path) -> str:
    """Return all MODULE:ATTR, with commas, that `settings` or their file name.

    Raises:
        CannotStart: the file is invalid.
    """
    if not settings.config:
        return settings.agents
    configuration = _read(folder / settings.config)
    sections = (*configuration.agents.values(), *configuration.tools.values())
    return ",".join(filter(None, (getattr(one, "target", "") for one in sections)))


def in_code(settings: DevSettings, folder: Path) -> list[AgentInCode]:
    """Return the agents in code of `settings` or their file, without the demo agents.

    Raises:
        CannotStart: the file is invalid.
    """
    if settings.config:
        sections = _read(folder / settings.config).agents.items()
        found = ((name, getattr(one, "target", "")) for name, one in sections)
        return [AgentInCode(target, name) for name, target in found if target]
    if serves_demo(settings):  # They declare nothing.
        return []
    return [AgentInCode(target) for target in settings.agents.split(",")]


def serves_demo(settings: DevSettings) -> bool:
    """Return whether `settings` name no agents, so that the demo agents are served."""
    return not settings.config and "agents" not in settings.model_fields_set


def _first_in(file: Path) -> str:
    return next(iter(_read(file).agents), "")


def _read(file: Path) -> Any:  # noqa: ANN401  # the worker's model of the file
    reading = module_of("worker", "headrace_worker.config.read")
    try:
        configuration, _ = reading.read(file, os.environ)
    except HeadraceError as error:
        raise CannotStart(str(error)) from None
    return configuration


def _name_of(target: str, folder: Path) -> str:
    """Return the id of the first agent of MODULE:ATTR; empty if only an import reveals it."""
    module, _, attribute = target.partition(":")
    path = _source_of(module, folder)
    if path is None:
        return ""
    declared = {one.target.partition(":")[2]: one.name for one in _declared_in(path)}
    if attribute not in declared:
        attribute = _first_of_list(ast.parse(path.read_bytes()), attribute)
    return declared.get(attribute, "")


def _source_of(module: str, folder: Path) -> Path | None:
    """Return the file of `module`, without importing the packages that it is in."""
    places = [str(folder), *sys.path]
    origin = ""
    for name in module.split("."):
        spec = PathFinder.find_spec(name, places)
        if spec is None:
            return None
        places, origin = list(spec.submodule_search_locations or ()), spec.origin or ""
    return Path(origin) if origin.endswith(".py") else None


def _first_of_list(module: ast.Module, name: str) -> str:
    """Return the first item of ``name = [item, …]`` or ``name = Agents([item, …])``."""
    for node in module.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=assigned)],
                value=ast.List(elts=[ast.Name(id=first), *_])
                | ast.Call(args=[ast.List(elts=[ast.Name(id=first), *_])]),
            ) if assigned == name:
                return first
            case _:
                pass
    return ""


def _check_none_is_meant(modules: list[Path]) -> None:
    meant = [path for path in modules if _is_written_with_headrace(path)]
    if meant:
        looked_at = ", ".join(path.name for path in meant)
        raise CannotStart(
            f"no agent found in {looked_at}: only functions with headrace's @agent at the top level"
            f" of a module of this folder are found; name others in {AGENTS_FILE}, or with"
            f" --agents {meant[0].stem}:NAME"
        )


def _is_written_with_headrace(path: Path) -> bool:
    module = _parsed(path)
    nodes = ast.walk(module) if module else ()
    return any(_is_for_agents(node) for node in nodes)


def _is_for_agents(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(one.name == "headrace" for one in names)
        case ast.ImportFrom(module="headrace", names=names, level=0):
            return not _MAKE_AGENTS.isdisjoint(one.name for one in names)
        case ast.ImportFrom(module=str(module), level=0):
            return module.startswith("headrace.adapters")
        case _:
            return False


def _may_declare(module: str) -> bool:
    of_tests = module == "conftest" or module.startswith("test_") or module.endswith("_test")
    return module.isidentifier() and not of_tests


def _parsed(path: Path) -> ast.Module | None:
    """Return a module's source, or None if it does not mention headrace."""
    source = path.read_bytes()
    if b"headrace" not in source:
        return None
    try:
        return ast.parse(source, path.name)
    except SyntaxError as error:
        why = null_byte_in(path, source) or f"{path.name}:{error.lineno}: {error.msg}"
        raise CannotStart(why) from None


def _declared_in(path: Path) -> Iterator[_Found]:
    module = _parsed(path)
    if module is None:
        return
    decorators = set(_names_of_the_decorator(module))
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                if ast.unparse(called) in decorators:
                    yield _Found(f"{path.stem}:{node.name}", _id_of(node.name, decorator))


def _names_of_the_decorator(module: ast.Module) -> Iterator[str]:
    """Yield what `headrace.agent` is called in `module`."""
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and node.module == "headrace" and not node.level:
            yield from (one.asname or one.name for one in node.names if one.name == "agent")
            yield from ("agent" for one in node.names if one.name == "*")
        if isinstance(node, ast.Import):
            own = (one.asname or one.name for one in node.names if one.name == "headrace")
            yield from (f"{name}.agent" for name in own)


def _id_of(function: str, decorator: ast.expr) -> str:
    named = next(
        (word.value for word in getattr(decorator, "keywords", ()) if word.arg == "name"), None
    )
    if named is None:
        return function.replace("_", "-")
    return named.value if isinstance(named, ast.Constant) and isinstance(named.value, str) else ""
