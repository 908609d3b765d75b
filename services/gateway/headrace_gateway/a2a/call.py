"""One call of an operation, whichever binding it came by."""

from dataclasses import dataclass

from starlette.requests import Request

from headrace.directory import AgentCard
from headrace_gateway.caller import Caller
from headrace_gateway.refusals import AgentUnknown
from headrace_gateway.services import Services


@dataclass(frozen=True, slots=True)
class Call:
    """Who asks which agent."""

    request: Request
    caller: Caller
    card: AgentCard
    """The agent asked."""

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.card.name

    @property
    def cursor(self) -> str:
        """Where to resume, from the header that EventSource sends or the query; empty: nowhere."""
        stated = self.request.headers.get("last-event-id") or self.request.query_params.get("after")
        return (stated or "").strip()


def call_of(services: Services, request: Request) -> Call:
    """Return who asks which agent; without an agent in the path it is the default one.

    Raises:
        AgentUnknown: there is no such agent.
    """
    name = request.path_params.get("agent", services.settings.default_agent)
    card = services.directory.card(name)
    if card is None:
        raise AgentUnknown(f"there is no agent {name!r}")
    return Call(request, caller_of(request), card)


def caller_of(request: Request) -> Caller:  # noqa: ARG001 - credentials will be read from it
    """Return who asks; until there is authentication, everybody is anonymous."""
    return Caller()
