"""What an agent's card says besides its name, description and version."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pydantic import BaseModel, ValidationError

from headrace.model import a2ui
from headrace.model.agent_card import AgentCard, Provider
from headrace.model.events import Json
from headrace.model.field_rule import first_problem
from headrace.sdk.errors import Misdeclared
from headrace.sdk.options import option_group

CATEGORIES = frozenset(
    [
        "identity",
        "transport",
        "tools",
        "output",
        "state",
        "multiAgent",
        "reasoning",
        "multimodal",
        "execution",
        "humanInTheLoop",
        "custom",
    ]
)
"""The categories of AG-UI's AgentCapabilities."""

_TEXT = ("text/plain",)

_UNKNOWN_MEMBER = "Extra inputs are not permitted"
"""What Pydantic says of one."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill on the agent's card.

    A2A requires a name, a description and a tag. The id is the default for all three.
    """

    id: str
    name: str = ""
    description: str = ""
    tags: Sequence[str] = ()
    examples: Sequence[str] = ()
    """Example prompts, such as ``"Translate this page into French."``."""
    input_modes: Sequence[str] = ()
    """Media types such as ``"text/plain"``. Empty: the agent's input modes."""
    output_modes: Sequence[str] = ()
    """Media types. Empty: the agent's output modes."""

    def to_json(self) -> Json:
        """Return the A2A AgentSkill."""
        name = self.name or self.id
        skill: Json = {
            "id": self.id,
            "name": name,
            "description": self.description or name,
            "tags": _listed(self.tags) or [self.id],
            "examples": _listed(self.examples),
        }
        modes = {
            "inputModes": _listed(self.input_modes),
            "outputModes": _listed(self.output_modes),
        }
        return skill | {key: value for key, value in modes.items() if value}


@option_group
@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What people and clients read about an agent, and what clients may do with it.

    Adapters complete the fields that are left out: with the card of an outside agent, for example.
    """

    display_name: str = ""
    """Name shown to people. Empty: the agent's name."""
    icon_url: str = ""
    """URL of an icon; ``http://`` or ``https://``."""
    documentation_url: str = ""
    """URL of the documentation; ``http://`` or ``https://``."""
    provider: Provider | None = None
    """The organization that runs the agent."""
    skills: Sequence[Skill | Json] = ()
    """`Skill` objects, or A2A AgentSkill objects as dicts."""
    input_modes: Sequence[str] = ()
    """Accepted media types; ``*/*`` accepts all. Empty: ``text/plain``, or what the adapter
    accepts."""
    output_modes: Sequence[str] = ()
    """Media types of the answers. Empty: ``text/plain``."""
    streaming: bool = True
    """Whether A2A clients may stream."""
    push_notifications: bool = True
    """Whether A2A clients may register webhooks."""
    capabilities: Json | None = None
    """AG-UI's AgentCapabilities by category, such as ``{"tools": {"supported": True}}``. They take
    precedence over what the fleet declares."""
    extensions: Sequence[Json] = ()
    """The agent's own A2A extensions, as AgentExtension objects. `RunContext.extensions` holds
    those that a request activates."""
    surfaces: Sequence[str] = ()
    """Ids of the A2UI catalogs whose components the agent uses, such as
    ``headrace.BASIC_CATALOG``. Empty: it makes no surfaces."""
    extended: Json | None = None
    """Members of an A2A AgentCard that only callers with credentials get. None: the agent has no
    extended card. Empty: it has one that is not configured yet."""

    def stated(self) -> dict[str, Any]:
        """Return the fields that are not left out, by name."""
        values = ((field, getattr(self, field.name)) for field in fields(self))
        return {
            field.name: value
            for field, value in values
            if value != field.default and value not in ("", [])
        }

    def announced(self, **others: object) -> AgentCard:
        """Return the card that a worker announces, with `others` of its fields.

        Raises:
            ValidationError: A field has a value of another type.
        """
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        surfaces = own.pop("surfaces")
        completed = {
            "skills": _as_json(self.skills),
            "input_modes": self.input_modes or _TEXT,
            "output_modes": self.output_modes or _TEXT,
            "capabilities": self.capabilities or {},
        }
        card = AgentCard.model_validate(own | completed | others)
        return card if not surfaces else _with_surfaces(card, surfaces)

    def check(self, agent: str) -> None:
        """Check the values whose types are right.

        Raises:
            Misdeclared: A category of capabilities is unknown, a skill is none of A2A's, which
                clients would refuse with the whole card, or a URL is neither http nor https, which
                pages could run as code.
        """
        try:
            _Skills.model_validate({"skills": _as_json(self.skills)})
        except ValidationError as invalid:
            members = f"a skill has {', '.join(_AgentSkill.model_fields)}"
            problem = first_problem(invalid, "skills").replace(_UNKNOWN_MEMBER, members)
            raise Misdeclared(f"agent {agent!r}: card.{problem}") from None
        unknown = (self.capabilities or {}).keys() - CATEGORIES
        if unknown:
            raise Misdeclared(
                f"agent {agent!r}: card.capabilities: unknown {sorted(unknown)}; "
                f"AG-UI has {sorted(CATEGORIES)}"
            )
        urls = {
            "icon_url": self.icon_url,
            "documentation_url": self.documentation_url,
            "provider.url": self.provider.url if self.provider else "",
        }
        for field, url in urls.items():
            if url and not url.startswith(("http://", "https://")):
                raise Misdeclared(
                    f"the card.{field} of agent {agent!r} must begin with http:// or https://"
                )


class _AgentSkill(BaseModel, extra="forbid"):
    """The members of A2A's AgentSkill."""

    id: str = ""
    name: str = ""
    description: str = ""
    tags: list[str] = []
    examples: list[str] = []
    inputModes: list[str] = []  # noqa: N815  # A2A's name
    outputModes: list[str] = []  # noqa: N815  # A2A's name
    securityRequirements: list[Json] = []  # noqa: N815  # A2A's name


class _Skills(BaseModel):
    skills: list[_AgentSkill]


def _with_surfaces(card: AgentCard, catalogs: Sequence[str]) -> AgentCard:
    """Return the card of an agent that also makes surfaces and takes what users do on them."""
    taken = card.input_modes if "*/*" in card.input_modes else [*card.input_modes, a2ui.MEDIA_TYPE]
    extensions = [*card.extensions, a2ui.extension(catalogs)]
    return card.model_copy(update={"input_modes": taken, "extensions": extensions})


def _listed(texts: Sequence[str]) -> Sequence[str]:
    """Return texts as a list; one text instead of several is left to the check."""
    return texts if isinstance(texts, str) else list(texts)


def _as_json(skills: object) -> object:
    """Return the skills as on the card; what is no list of skills is left to its check."""
    if not isinstance(skills, Iterable) or isinstance(skills, str):
        return skills
    return [each.to_json() if isinstance(each, Skill) else each for each in skills]
