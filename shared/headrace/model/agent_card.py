"""What an agent says of itself when its workers announce it."""

from typing import Any, Literal

from pydantic import Field

from headrace.model.messages import BusMessage


class Provider(BusMessage):
    """Who runs an agent."""

    organization: str
    url: str
    """Of the organization."""


class SecurityScheme(BusMessage):
    """One way to show who asks, in OpenAPI's words."""

    type: Literal["http", "apiKey"]
    scheme: str = ""
    """For ``http``: ``bearer``."""
    name: str = ""
    """For ``apiKey``: the header."""


class AgentSecurity(BusMessage):
    """Who may ask an agent."""

    schemes: dict[str, SecurityScheme] = Field(default_factory=dict)
    """How credentials are sent, by name; empty: as the gateway says of all agents."""
    require: list[str] = Field(default_factory=list)
    """Names of `schemes`, one of which is needed; empty: what the gateway asks of everybody."""


class AgentCard(BusMessage):
    """What an agent says of itself; gateways add URLs, versions and the fleet's capabilities."""

    name: str
    """Its id: part of paths and subjects."""
    display_name: str = ""
    """What people call it; empty: its id."""
    description: str = ""
    version: str = "1.0.0"
    icon_url: str = ""
    documentation_url: str = ""
    provider: Provider | None = None
    skills: list[dict[str, Any]] = Field(default_factory=list)
    """A2A AgentSkill objects."""
    input_modes: list[str] = Field(default_factory=lambda: ["text/plain"])
    """Media types that the agent takes; ``*/*`` takes all."""
    output_modes: list[str] = Field(default_factory=lambda: ["text/plain"])
    bare_message: bool = False
    """May answer with a bare Message instead of a task."""
    cleans_up: bool = False
    """Whether it is to hear of tasks that end while no attempt is at work on them."""
    streaming: bool = True
    """Whether clients may stream."""
    push_notifications: bool = True
    """Whether clients may have themselves notified."""
    extended: dict[str, Any] | None = None
    """What callers with credentials are told beside: description, skills and the like, as in an A2A
    AgentCard. None: there is no extended card; empty: there is one to come."""
    extensions: list[dict[str, Any]] = Field(default_factory=list)
    """A2A AgentExtension objects; who does not activate a ``required`` one is refused."""
    security: AgentSecurity = Field(default_factory=AgentSecurity)
    follow_ups: Literal["enqueue", "interrupt", "reject", "steer"] = "enqueue"
    """What becomes of a message to a task that is at work."""
    start_within: float | None = None
    """Seconds within which a worker must have begun a run; None: what the fleet allows."""
    capabilities: dict[str, Any] = Field(default_factory=dict)
    """AG-UI AgentCapabilities that it declares; gateways add what every agent has."""

    @property
    def title(self) -> str:
        """What people are shown as its name."""
        return self.display_name or self.name
