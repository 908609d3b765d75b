"""Model of ``headrace.yaml``, and its published JSON Schema."""

import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from headrace.adapters.conversation.memory import Memory
from headrace.model.described import Described
from headrace.model.events import Json
from headrace.schedule_spec import NamedSchedule
from headrace.sdk.agent import FollowUps
from headrace.sdk.policy import LONGEST
from headrace.trigger_spec import TriggerSpec

_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def check_url(url: str) -> str:
    """Return the URL if it is valid.

    Raises:
        ValueError: the URL is invalid or has no host.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"is not a URL: {error}") from None
    if not parts.hostname or port == 0 or url != url.strip() or " " in url:
        raise ValueError("is not a URL with a host")
    return url


def check_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return the headers if they are valid.

    Raises:
        ValueError: a name or value can't be sent over HTTP.
    """
    for name, value in headers.items():
        if not _FIELD.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid header name")
        if "\n" in value or "\r" in value or not value.isascii():
            raise ValueError(f"the value of {name} is not a valid header value")
    return headers


_TARGET = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"
_URL = r"^(https?://|\$\{)"
"""The schema applies to the file as written, so a value may start with a variable."""
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"

_NO_KEYS = frozenset({"authorization", "connection", "content-type", "cookie", "host", "origin"})
"""Headers set by browsers and proxies."""

type Headers = Annotated[dict[str, str], AfterValidator(check_headers)]
type Name = Annotated[str, Field(pattern=_NAME)]
type Url = Annotated[str, Field(pattern=_URL), AfterValidator(check_url)]
type Target = Annotated[str, Field(pattern=_TARGET)]


class Section(Described):
    """A part of the file; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class BearerSection(Section):
    """A token in ``Authorization: Bearer``."""

    type: Literal["bearer"]
    token: str


class ApiKeySection(Section):
    """An API key in its own header."""

    type: Literal["api_key"]
    key: str
    header: str = ""
    """Name of the header. Empty: the one in the agent's card."""


class ClientCredentialsSection(Section):
    """OAuth2 client credentials: a token is fetched, and fetched again when it expires."""

    type: Literal["oauth2"]
    client_id: str
    client_secret: str
    token_url: Url | None = None
    """URL of the token endpoint. None: the one in the agent's card."""
    scopes: list[str] = Field(default_factory=list)
    audience: str = ""


type Credentials = Annotated[
    BearerSection | ApiKeySection | ClientCredentialsSection, Field(discriminator="type")
]


class SchemeSection(Section):
    """An authentication scheme, as in agent cards (with OpenAPI's names)."""

    type: Literal["http", "apiKey"]
    scheme: str = ""
    """For `http`: ``bearer``."""
    name: str = ""
    """For `apiKey`: the header."""
    location: Literal["", "header"] = Field(default="", alias="in")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.type == "http" and self.scheme.lower() != "bearer":
            raise ValueError("type http requires scheme: bearer")
        if self.type == "apiKey" and not _FIELD.fullmatch(self.name):
            raise ValueError("type apiKey requires the name of a header")
        if self.type == "apiKey" and self.name.lower() in _NO_KEYS:
            raise ValueError(f"{self.name} can't carry an API key: HTTP uses this header")
        return self


class Security(Section):
    """Which credentials callers of the agent need."""

    schemes: dict[str, SchemeSection] = Field(default_factory=dict)
    require: list[str] = Field(default_factory=list)
    """Names of `schemes`, one of which is required. Empty: the gateway's requirement."""


class Model(Section):
    """A model behind an OpenAI-compatible endpoint."""

    model: str
    base_url: Url | None = None
    """URL of the endpoint. None: OpenAI's."""
    api_key: str | None = None
    """None: taken from the environment by the client library."""
    temperature: float | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    headers: Headers = Field(default_factory=dict)
    options: Json = Field(default_factory=dict)
    """Added to each request unchanged."""
    image_urls: bool | None = None
    """Whether the endpoint gets the URLs of images that users link, and so fetches them from where
    it runs. None: only OpenAI's does."""


class Reasoning(Section):
    """How a model reasons, and whether clients see it."""

    engine: str | None = None
    """Accepted for files written for Hector; has no effect."""
    enable_streaming: bool = True
    """Whether clients may stream the answer."""

    show_thinking: bool = True
    """Whether clients receive the model's reasoning."""
    effort: str | None = None
    """``low``, ``medium``, ``high``, or another value that the model supports."""


class SkillSection(Section):
    """A skill of the agent."""

    id: str
    name: str = ""
    """Name shown to people. Empty: the id."""
    description: str = ""
    tags: list[str] = Field(default_factory=list)
    examples: list[str] = Field(default_factory=list)
    """Example prompts."""
    input_modes: list[str] = Field(default_factory=list)
    """Media types. Empty: the agent's."""
    output_modes: list[str] = Field(default_factory=list)


class ProviderSection(Section):
    """The organization that runs the agent."""

    organization: str
    url: Url
    """URL of the organization; required by A2A."""


class CardSection(Section):
    """What people and clients read about an agent; see `headrace.Card`."""

    icon_url: Url | None = None
    documentation_url: Url | None = None
    provider: ProviderSection | None = None
    skills: list[SkillSection] | None = None
    input_modes: list[str] | None = None
    """Accepted media types; ``*/*`` accepts all."""
    output_modes: list[str] | None = None
    """Media types of the answers."""


class RetrySection(Section):
    """When a run is attempted again; see `headrace.Retry`."""

    attempts: int = Field(default=3, ge=1)
    backoff: float = Field(default=1.0, ge=0, le=LONGEST)
    """Seconds."""


class LimitsSection(Section):
    """Limits of an agent's runs; see `headrace.Limits`. Durations are in seconds."""

    concurrency: int | None = Field(default=None, ge=1)
    timeout: float | None = Field(default=None, gt=0, le=LONGEST)
    start_within: float | None = Field(default=None, gt=0, le=LONGEST)


class CommonAgentSection(Section):
    """The fields of any agent's section; see `headrace.agent`."""

    name: str | None = None
    """Name shown to people. The id is the key of this section."""
    description: str | None = None
    version: str | None = None
    pinned: bool | None = None
    """Whether tasks stay with the version that began them."""
    card: CardSection = Field(default_factory=CardSection)
    follow_ups: FollowUps | None = None
    """How a message to a running task is handled."""
    retry: RetrySection | None = None
    limits: LimitsSection | None = None
    security: Security | None = None


class PythonAgent(CommonAgentSection):
    """An agent in Python code. Fields set here override those in the code."""

    type: Literal["python"] = "python"
    """Optional if there is a `target`."""
    target: Target
    """The agent as ``module:attribute``."""


class ModelAgent(CommonAgentSection):
    """A model with an instruction and tools."""

    type: Literal["openai"] = "openai"
    """Optional."""
    llm: str | None = None
    """Name of one of `llms`; instead of `model`. Default: the only one of `llms`, or the one
    called ``default``; without `llms`, the model that ``OPENAI_MODEL``, ``OPENAI_BASE_URL`` and
    ``OPENAI_API_KEY`` specify."""
    model: Model | None = None
    instruction: str = ""
    reasoning: Reasoning = Field(default_factory=Reasoning)
    tools: list[str] = Field(default_factory=list)
    """Names of `tools`."""
    memory: Memory = "context"
    """How much of the conversation the model receives."""
    max_turns: int = Field(default=16, ge=1)

    @model_validator(mode="after")
    def _has_one_model(self) -> Self:
        if self.llm is not None and self.model is not None:
            raise ValueError("has both llm and model; set one")
        return self


class RemoteAgent(CommonAgentSection):
    """An A2A agent on another server."""

    type: Literal["a2a"]
    url: Url
    """URL of the agent; its card is at the well-known path below it."""
    binding: Literal["", "JSONRPC", "HTTP+JSON", "GRPC"] = ""
    """Empty: the first supported binding in its card."""
    origins: list[Url] = Field(default_factory=list)
    """URLs of further origins at which its card may name interfaces. They get the credentials and
    headers, too."""
    credentials: Credentials | None = None
    headers: Headers = Field(default_factory=dict)
    """Headers added to each request."""
    silence: float = Field(default=60.0, gt=0)
    """Seconds of silence after which a stream is opened again."""


class AgUiAgent(CommonAgentSection):
    """An AG-UI agent behind HTTP."""

    type: Literal["ag-ui"]
    url: Url
    """URL to which runs are posted."""
    headers: Headers = Field(default_factory=dict)
    """Headers added to each request."""
    silence: float = Field(default=300.0, gt=0)
    """Seconds of silence after which a run is tried again."""
    memory: Memory = "context"
    """How much of the conversation it receives, unless the client sends the conversation itself."""


def _type_of(section: object) -> str | None:
    """Return an agent's type, which models and targets need not state; None: it can't be known."""
    if isinstance(section, PythonAgent | ModelAgent | RemoteAgent | AgUiAgent):
        return section.type
    if not isinstance(section, dict):
        return "openai"
    if (stated := section.get("type")) is not None:
        return str(stated)
    if "target" in section:
        return "python"
    return None if "url" in section else "openai"


type AgentSection = Annotated[
    Annotated[PythonAgent, Tag("python")]
    | Annotated[ModelAgent, Tag("openai")]
    | Annotated[RemoteAgent, Tag("a2a")]
    | Annotated[AgUiAgent, Tag("ag-ui")],
    Discriminator(_type_of),
]


class PythonTool(Section):
    """A Python function."""

    type: Literal["python"]
    target: Target


class McpTool(Section):
    """The tools of an MCP server."""

    type: Literal["mcp"]
    url: Url | None = None
    """URL of a streamable HTTP server; instead of `command`."""
    headers: Headers = Field(default_factory=dict)
    command: list[str] | None = Field(default=None, min_length=1)
    """Command that starts a server on standard input and output; instead of `url`."""
    env: dict[str, str] = Field(default_factory=dict)
    only: list[str] | None = None
    """Names of the tools to use. None: all."""
    prefix: str = ""
    """Prefix of each tool's name."""

    @model_validator(mode="after")
    def _is_at_one_place(self) -> Self:
        if (self.url is None) == (self.command is None):
            raise ValueError("needs either url or command")
        return self


type ToolSection = Annotated[PythonTool | McpTool, Field(discriminator="type")]


class Configuration(Section):
    """The contents of headrace.yaml."""

    llms: dict[str, Model] = Field(default_factory=dict)
    """Models, by the name that agents use in `llm`."""
    tools: dict[str, ToolSection] = Field(default_factory=dict)
    """Tools, by the name that agents use in `tools`."""
    agents: dict[Name, AgentSection] = Field(min_length=1)
    """Agents by id."""
    triggers: list[TriggerSpec] = Field(default_factory=list)
    """Events that begin tasks. `headrace triggers apply FILE` makes them, as the caller's, and so
    does `headrace dev` when it starts; workers pass over them."""
    schedules: list[NamedSchedule] = Field(default_factory=list)
    """What begins tasks by the clock. `headrace schedules apply FILE` stores them in the same way.
    """


def schema() -> dict[str, Any]:
    """Return the file's JSON Schema (2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "headrace.schema.json",
        **Configuration.model_json_schema(),
        "title": "headrace.yaml",
    }
