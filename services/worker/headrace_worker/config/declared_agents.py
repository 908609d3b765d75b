"""Loading of a file's agents in one step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from logging import Logger
from pathlib import Path

from headrace.sdk.agent import Agents
from headrace_worker.config.build import build
from headrace_worker.config.read import read
from headrace_worker.config.references import without_effect


@dataclass(frozen=True, slots=True)
class DeclaredAgents:
    """The agents that a file declares."""

    agents: Agents
    warnings: Sequence[str] = ()
    """Fields without effect, each with line, field and remedy."""

    def warn(self, log: Logger) -> None:
        """Log the warnings."""
        for warning in self.warnings:
            log.warning("%s", warning)


def declared_in(
    path: Path, environment: Mapping[str, str], *, connect: bool = True
) -> DeclaredAgents:
    """Return the agents of the file at `path`; without `connect`, no network request is made.

    Raises:
        Unusable: the file can't be read, is invalid, or an agent can't be created.
    """
    configuration, lines = read(path, environment)
    agents = build(configuration, lines, environment=environment, connect=connect)
    return DeclaredAgents(agents, lines.report(list(without_effect(configuration))))
