"""Import of the agents named by ``MODULE:ATTR``."""

import inspect
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any

import headrace
from headrace.did_you_mean import did_you_mean
from headrace.sdk.agent import Agent, Agents
from headrace.sdk.errors import Misdeclared
from headrace.sdk.source import declared_at, imported_at, null_byte_in


def load(target: str) -> Agents:
    """Import MODULE and return its ATTR as agents: one agent, several, or a registry.

    Several targets are separated by commas.

    Raises:
        Misdeclared: the module or the attribute does not exist, the attribute has no agents, or the
            module imports a package that is not installed.
        Exception: any other error during the import.
    """
    several = [_agents(one, resolve(one)) for one in target.split(",")]
    if len(several) == 1:
        return several[0]
    return Agents([agent for agents in several for agent in agents])


def resolve(target: str) -> Any:  # noqa: ANN401  # any attribute
    """Import MODULE of ``MODULE:ATTR`` and return its ATTR.

    Raises:
        Misdeclared: the module or the attribute does not exist, is not Python, or imports a package
            that is not installed.
        Exception: any other error during the import, with a note of its file and line.
    """
    module_name, _, path = target.partition(":")
    try:
        found: Any = import_module(module_name)
    except ModuleNotFoundError as missing:
        raise Misdeclared(_what_is_missing(module_name, missing)) from None
    except SyntaxError as error:
        raise Misdeclared(_what_is_not_python(module_name, error)) from None
    except Exception as error:
        # A supervisor that has room for one line only shows the last one.
        error.add_note(f"{type(error).__name__}: {error}{imported_at(error.__traceback__)}")
        raise
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            # What a module imports to make agents, such as `agent`, is none.
            own = [one for one in dir(found) if one not in headrace.__all__]
            hint = did_you_mean(name, own, path.removesuffix(name))
            raise Misdeclared(f"module {module_name} has no attribute {path}{hint}") from None
    return found


def _what_is_missing(module: str, error: ModuleNotFoundError) -> str:
    missing = error.name or ""
    if f"{module}.".startswith(f"{missing}."):
        return f"no module named {module}"
    place = imported_at(error.__traceback__)
    return f"{module} imports {missing}, which is not installed{place}"


def _what_is_not_python(module: str, error: SyntaxError) -> str:
    if error.filename and error.lineno:
        return f"{PurePath(error.filename).name}:{error.lineno}: {error.msg}"
    place = imported_at(error.__traceback__)
    if "null bytes" not in error.msg:
        return f"{module}: {error.msg}{place}"
    # Python does not name the file.
    file = _file_of(module)
    if file is not None and (why := null_byte_in(file, file.read_bytes())):
        return why
    return f"{module} imports a file that has null bytes; save it as UTF-8 text{place}"


def _file_of(module: str) -> Path | None:
    with suppress(ImportError, SyntaxError):  # of a package around it
        spec = find_spec(module)
        if spec and spec.origin and spec.has_location:
            return Path(spec.origin)
    return None


def _agents(target: str, found: object) -> Agents:
    if isinstance(found, Agent):
        return Agents([found])
    if isinstance(found, Iterable):
        several = list(found)
        if several and all(isinstance(one, Agent) for one in several):
            return found if isinstance(found, Agents) else Agents(several)
    raise Misdeclared(f"{target} is not an agent or a list of agents{_remedy(found)}")


def _remedy(found: object) -> str:
    if not inspect.isfunction(found):
        return ""
    return f"; declare the function with @agent{declared_at(found)}"
