"""The agent card that workers announce."""

from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from headrace.model.messages import BusMessage
from headrace.model.subjects import encode_token


class Provider(BusMessage):
    """The organization that runs an agent."""

    organization: str
    url: str
    """URL of the organization."""


class SecurityScheme(BusMessage):
    """An authentication scheme, in OpenAPI's terms."""

    type: Literal["http", "apiKey"]
    scheme: str = ""
    """For ``http``: ``bearer``."""
    name: str = ""
    """For ``apiKey``: the header."""


class AgentSecurity(BusMessage):
    """Which credentials an agent requires."""

    schemes: dict[str, SecurityScheme] = Field(default_factory=dict)
    """Authentication schemes by name. Empty: the gateway's schemes for all agents."""
    require: list[str] = Field(default_factory=list)
    """Names of `schemes`, one of which is required. Empty: the gateway's requirement."""


class Caution(BusMessage):
    """What operators should know about an agent before its users notice."""

    text: str
    remedy: str

    def __str__(self) -> str:
        """Return both in one line."""
        return f"{self.text} ({self.remedy})"


class AgentCard(BusMessage):
    """An agent's card. Gateways add URLs, versions and the fleet's capabilities."""

    name: str
    """The agent's id, part of paths and subjects."""
    display_name: str = ""
    """Name shown to people. Empty: the id."""
    description: str = ""
    version: str = "1.0.0"
    pinned: bool = False
    """Whether tasks stay with the version that began them: it has queues of its own."""
    icon_url: str = ""
    documentation_url: str = ""
    provider: Provider | None = None
    skills: list[dict[str, Any]] = Field(default_factory=list)
    """A2A AgentSkill objects."""
    input_modes: list[str] = Field(default_factory=lambda: ["text/plain"])
    """Accepted media types; ``*/*`` accepts all."""
    output_modes: list[str] = Field(default_factory=lambda: ["text/plain"])
    bare_message: bool = False
    """Whether it may answer with a bare Message instead of a task."""
    cleans_up: bool = False
    """Whether it has a clean-up for tasks that end while no attempt is running."""
    streaming: bool = True
    """Whether clients may stream."""
    push_notifications: bool = True
    """Whether clients may register webhooks."""
    extended: dict[str, Any] | None = None
    """Members of an A2A AgentCard that only callers with credentials get, such as description and
    skills. None: no extended card. Empty: an extended card that is not configured yet."""
    extensions: list[dict[str, Any]] = Field(default_factory=list)
    """A2A AgentExtension objects. Requests that do not activate a ``required`` one are refused."""
    security: AgentSecurity = Field(default_factory=AgentSecurity)
    follow_ups: Literal["enqueue", "interrupt", "reject", "steer"] = "enqueue"
    """How a message to a running task is handled."""
    start_within: float | None = None
    """Seconds within which a worker must start a run. None: the fleet's limit."""
    capabilities: dict[str, Any] = Field(default_factory=dict)
    """AG-UI AgentCapabilities that the agent declares. Gateways add what every agent has."""
    cautions: list[Caution] = Field(default_factory=list)
    """For operators only; clients don't see them."""

    @property
    def pinned_version(self) -> str:
        """The version that its tasks are pinned to; empty: its tasks are not pinned."""
        return self.version if self.pinned else ""

    @cached_property
    def accepted_types(self) -> frozenset[str]:
        """The media types and patterns of its modes and of all its skills'; empty: all types.

        ``image``, a form that example cards use, is here ``image/*``.
        """
        skills = (skill.get("inputModes", []) for skill in self.skills)
        stated = (mode for modes in (self.input_modes, *skills) for mode in modes)
        types = (mode.partition(";")[0].strip().lower() for mode in stated)
        return frozenset(mode if "/" in mode else f"{mode}/*" for mode in types)

    @cached_property
    def accepts_text(self) -> bool:
        """Whether the agent accepts texts of no stated type, as nearly all do."""
        return not self.accepted_types or "text/plain" in self.accepted_types

    @property
    def title(self) -> str:
        """The display name, or the id."""
        return self.display_name or self.name


def card_key(agent: str, version: str) -> str:
    """Return the key under which the directory has the card of an agent's version.

    `version` is empty if it is not pinned.
    """
    return f"card.{agent}.{encode_token(version)}" if version else f"card.{agent}"
