"""From a file to its agents, in one step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from logging import Logger
from pathlib import Path

from headrace.sdk.agent import Agents
from headrace_worker.config.building import build
from headrace_worker.config.reading import read
from headrace_worker.config.references import without_effect


@dataclass(frozen=True, slots=True)
class DeclaredAgents:
    """What a file declares."""

    agents: Agents
    warnings: Sequence[str] = ()
    """What of it has no effect, by line and field, and what to do about it."""

    def warn(self, log: Logger) -> None:
        """Log the warnings."""
        for warning in self.warnings:
            log.warning("%s", warning)


def declared_in(
    path: Path, environment: Mapping[str, str], *, connect: bool = True
) -> DeclaredAgents:
    """Return the agents of the file at `path`; unless it may `connect`, nothing is asked for.

    Raises:
        Unusable: it can't be read, does not fit, or agents of it can't be made.
    """
    configuration, lines = read(path, environment)
    agents = build(configuration, lines, environment=environment, connect=connect)
    return DeclaredAgents(agents, lines.report(list(without_effect(configuration))))
