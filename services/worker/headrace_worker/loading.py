"""Finding the agents that ``MODULE:ATTR`` names."""

from collections.abc import Iterable
from importlib import import_module

from headrace_worker.agent import Agent, Agents
from headrace_worker.errors import Misdeclared


def load(target: str) -> Agents:
    """Import MODULE and return the agents that its ATTR is: one, several, or a registry.

    Raises:
        Misdeclared: there is no such module or attribute, or what it is holds no agents.
        Exception: whatever importing the module raises.
    """
    module_name, _, path = target.partition(":")
    try:
        found: object = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # The module is there; what it imports is not.
        raise Misdeclared(f"there is no module {module_name}") from None
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise Misdeclared(f"{module_name} has no {path}") from None
    return _agents(target, found)


def _agents(target: str, found: object) -> Agents:
    if isinstance(found, Agent):
        return Agents([found])
    if isinstance(found, Iterable):
        several = list(found)
        if several and all(isinstance(one, Agent) for one in several):
            return found if isinstance(found, Agents) else Agents(several)
    raise Misdeclared(f"{target} is neither an agent nor a list of agents")
