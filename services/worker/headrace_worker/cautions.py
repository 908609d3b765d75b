"""What operators should know about the agents that a worker serves, in its log."""

import logging

from headrace.sdk.agent import Agents

_log = logging.getLogger(__name__)


def warn_of(agents: Agents) -> None:
    """Log the cautions about `agents`."""
    for agent in agents:
        for caution in agent.card.cautions:
            _log.warning("agent %s: %s", agent.name, caution)
