"""Creation of a worker's agents from a file or its configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from logging import Logger
from pathlib import Path
from typing import Any

from headrace import adapters
from headrace.model.agent_card import AgentCard, AgentSecurity, Provider
from headrace.model.errors import HeadraceError
from headrace.sdk.agent import Agent, Agents
from headrace.sdk.card import Card, Skill
from headrace.sdk.policy import Limits, Retry
from headrace.sdk.source import imported_at
from headrace_worker.config.errors import FieldUnusable, Lines, Unusable
from headrace_worker.config.model import (
    AgUiAgent,
    ApiKeySection,
    BearerSection,
    ClientCredentialsSection,
    CommonAgentSection,
    Configuration,
    Credentials,
    LimitsSection,
    McpTool,
    Model,
    ModelAgent,
    PythonAgent,
    PythonTool,
    RemoteAgent,
    RetrySection,
    Security,
)
from headrace_worker.config.read import read
from headrace_worker.config.references import (
    DEFAULT_MODEL,
    MODEL_OF_ENVIRONMENT,
    broken,
    model_of,
    without_effect,
)
from headrace_worker.load import load, resolve

_CARD_TIMEOUT = 5.0
"""Timeout in seconds for reading a remote agent's card."""


def build(
    configuration: Configuration,
    lines: Lines | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    connect: bool = True,
) -> Agents:
    """Return the agents that the file declares.

    `lines` are the file's; `environment` names the model of agents for which the file has none.
    Without `connect`, the cards of remote agents are not read.

    Raises:
        Unusable: agents can't be created; the message lists each with the reason.
    """
    wrong, made = list(broken(configuration)), Agents()
    names = {path[1] for path, _ in wrong}
    for name in configuration.agents:
        if name in names:
            continue
        try:
            made.add(_made(configuration, name, environment or {}, connect=connect))
        except FieldUnusable as unusable:
            wrong.append(unusable.finding)
    if wrong:
        raise Unusable("\n".join((lines or Lines()).report(wrong)))
    return made


def _made(
    configuration: Configuration, name: str, environment: Mapping[str, str], *, connect: bool
) -> Agent:
    section, place = configuration.agents[name], ("agents", name)
    try:
        if isinstance(section, PythonAgent):
            made = _python(name, section)
        elif isinstance(section, ModelAgent):
            model = model_of(configuration, section) or _model_of_environment(name, environment)
            made = _model(configuration, name, section, model)
        elif isinstance(section, AgUiAgent):
            made = _agui(name, section)
        else:
            made = _remote(name, section, connect=connect)
    except FieldUnusable:
        raise
    except (HeadraceError, ImportError) as error:
        raise FieldUnusable(place, str(error)) from error
    except (Exception, SystemExit) as error:
        # Raised by code that the file names: after any error, the file can't be used.
        where = imported_at(error.__traceback__)
        raise FieldUnusable(place, f"{type(error).__name__}: {error}{where}") from error
    return _secured(made, section.security)


def _python(name: str, section: PythonAgent) -> Agent:
    agents = list(load(section.target))
    if len(agents) != 1:
        raise FieldUnusable(
            ("agents", name, "target"), f"{section.target} must be one agent, not {len(agents)}"
        )
    options = _options(section)
    shown = {key: value for key, value in options.items() if key in AgentCard.model_fields}
    shown |= _card(section).stated()
    card = agents[0].card.model_copy(update=shown | {"name": name})
    retry, limits = _set(section.retry, agents[0].retry), _set(section.limits, agents[0].limits)
    if limits.start_within != card.start_within:
        card = card.model_copy(update={"start_within": limits.start_within})
    return replace(agents[0], card=card, retry=retry, limits=limits)


def _model(configuration: Configuration, name: str, section: ModelAgent, model: Model) -> Agent:
    made: Agent = adapters.openai_agent(
        name=name,
        model=model.model,
        base_url=model.base_url,
        api_key=model.api_key,
        temperature=model.temperature,
        max_tokens=model.max_tokens,
        headers=model.headers or None,
        options=model.options or None,
        image_urls=model.image_urls,
        instruction=section.instruction,
        show_thinking=section.reasoning.show_thinking,
        reasoning_effort=section.reasoning.effort,
        tools=[
            _tool(configuration.tools[name])
            for name in section.tools
            if name in configuration.tools
        ],
        memory=section.memory,
        max_turns=section.max_turns,
        **_options(section, streaming=section.reasoning.enable_streaming),
    )
    return made


def _model_of_environment(agent: str, environment: Mapping[str, str]) -> Model:
    values = {field: environment.get(name) for field, name in MODEL_OF_ENVIRONMENT.items()}
    if not values["api_key"] and not values["base_url"]:
        rule = "needs a model: declare one under llms, or set OPENAI_API_KEY"
        raise FieldUnusable(("agents", agent, "llm"), rule)
    return Model.model_validate({"model": DEFAULT_MODEL} | {k: v for k, v in values.items() if v})


def _tool(section: PythonTool | McpTool) -> Any:  # noqa: ANN401  # a tool, or a source of them
    return resolve(section.target) if isinstance(section, PythonTool) else _mcp(section)


def _mcp(section: McpTool) -> Any:  # noqa: ANN401  # a source of tools
    return adapters.McpServer(
        section.url or "",
        command=section.command or (),
        environment=section.env or None,
        headers=section.headers or None,
        only=section.only,
        prefix=section.prefix,
    )


def _agui(name: str, section: AgUiAgent) -> Agent:
    made: Agent = adapters.ag_ui_agent(
        section.url,
        name=name,
        headers=section.headers or None,
        silence=section.silence,
        memory=section.memory,
        **_options(section),
    )
    return made


def _remote(name: str, section: RemoteAgent, *, connect: bool) -> Agent:
    made: Agent = adapters.remote_agent(
        section.url,
        name=name,
        binding=section.binding,
        origins=section.origins,
        credentials=_credentials(section.credentials),
        headers=section.headers,
        silence=section.silence,
        card_timeout=_CARD_TIMEOUT if connect else 0.0,
        **_options(section),
    )
    return made


def _credentials(section: Credentials | None) -> Any:  # noqa: ANN401  # what the adapter takes
    match section:
        case None:
            return None
        case BearerSection():
            return adapters.Bearer(section.token)
        case ApiKeySection():
            return adapters.ApiKey(section.key, section.header)
        case ClientCredentialsSection():
            return adapters.ClientCredentials(
                section.client_id,
                section.client_secret,
                section.token_url or "",
                section.scopes,
                section.audience,
            )


def _options(section: CommonAgentSection, *, streaming: bool = True) -> dict[str, Any]:
    """Return the section's description of the agent, as keywords of `headrace.agent`."""
    stated = {
        "description": section.description,
        "version": section.version,
        "pinned": section.pinned,
        "follow_ups": section.follow_ups,
        "card": replace(_card(section), streaming=streaming),
        "retry": section.retry and _set(section.retry, Retry()),
        "limits": section.limits and _set(section.limits, Limits()),
    }
    return {key: value for key, value in stated.items() if value is not None}


def _card(section: CommonAgentSection) -> Card:
    stated = section.card.model_dump(exclude_none=True, exclude={"provider", "skills"})
    if section.card.provider is not None:
        stated["provider"] = Provider(**section.card.provider.model_dump())
    if section.card.skills is not None:
        stated["skills"] = [Skill(**one.model_dump()).to_json() for one in section.card.skills]
    return Card(display_name=section.name or "", **stated)


def _set[T: Retry | Limits](section: RetrySection | LimitsSection | None, values: T) -> T:
    """Return `values` with those that the section sets."""
    return values if section is None else replace(values, **section.model_dump(exclude_unset=True))


def _secured(made: Agent, security: Security | None) -> Agent:
    if security is None:
        return made
    agent_security = AgentSecurity.model_validate(security.model_dump())
    return replace(made, card=made.card.model_copy(update={"security": agent_security}))


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
