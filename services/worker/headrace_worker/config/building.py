"""From what the file says to agents that a worker can serve."""

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.model.errors import HeadraceError
from headrace.model.events import Json
from headrace.sdk.agent import Agent, Agents
from headrace_worker.config.model import (
    AgUiAgent,
    ApiKeySection,
    BearerSection,
    ClientCredentialsSection,
    Configuration,
    Credentials,
    Described,
    McpTool,
    Model,
    ModelAgent,
    PythonAgent,
    PythonTool,
    RemoteAgent,
    Security,
)
from headrace_worker.config.reading import Unusable
from headrace_worker.loading import load, resolve

_CARD = ("description", "version", "skills", "input_modes", "output_modes", "follow_ups")
_POLICY = ("max_attempts", "backoff", "timeout")


def build(configuration: Configuration) -> Agents:
    """Return the agents that the file declares.

    Raises:
        Unusable: one can't be made; says which and why.
    """
    return Agents(_made(configuration, name) for name in configuration.agents)


def _made(configuration: Configuration, name: str) -> Agent:
    section = configuration.agents[name]
    try:
        if isinstance(section, PythonAgent):
            made = _python(name, section)
        elif isinstance(section, ModelAgent):
            made = _model(configuration, name, section)
        elif isinstance(section, AgUiAgent):
            made = _agui(name, section)
        else:
            made = _remote(name, section)
    except Unusable:
        raise
    except (HeadraceError, ImportError) as error:
        raise Unusable(f"agents.{name}: {error}") from error
    except (Exception, SystemExit) as error:
        # Of code that the file names: whatever it does, the file can't be used.
        raise Unusable(f"agents.{name}: {type(error).__name__}: {error}") from error
    return _secured(made, section.security)


def _python(name: str, section: PythonAgent) -> Agent:
    agents = list(load(section.target))
    if len(agents) != 1:
        raise Unusable(f"agents.{name}.target: {section.target} is {len(agents)} agents, not one")
    said = _said(section)
    card = agents[0].card.model_copy(
        update={"name": name, **{key: said[key] for key in _CARD if key in said}}
    )
    policy = replace(agents[0].policy, **{key: said[key] for key in _POLICY if key in said})
    concurrency = said.get("concurrency", agents[0].concurrency)
    return replace(agents[0], card=card, policy=policy, concurrency=concurrency)


def _model(configuration: Configuration, name: str, section: ModelAgent) -> Agent:
    model = _llm(configuration, name, section)
    made: Agent = _door("openai_chat", "openai_agent")(
        name=name,
        model=model.model,
        base_url=model.base_url,
        api_key=model.api_key,
        temperature=model.temperature,
        max_tokens=model.max_tokens,
        headers=model.headers or None,
        options=model.options or None,
        instruction=section.instruction,
        show_thinking=section.reasoning.show_thinking,
        reasoning_effort=section.reasoning.effort,
        tools=[_tool(configuration, name, tool) for tool in section.tools],
        memory=section.memory,
        max_turns=section.max_turns,
        **_said(section),
    )
    return made


def _llm(configuration: Configuration, name: str, section: ModelAgent) -> Model:
    if (section.llm is None) == (section.model is None):
        raise Unusable(f"agents.{name}: needs either llm, the name of one of llms, or model")
    if section.model is not None:
        return section.model
    model = configuration.llms.get(section.llm or "")
    if model is None:
        raise Unusable(f"agents.{name}.llm: llms has no {section.llm!r}")
    return model


def _tool(configuration: Configuration, agent: str, name: str) -> Any:  # noqa: ANN401  # a tool, or a source of them
    section = configuration.tools.get(name)
    match section:
        case None:
            raise Unusable(f"agents.{agent}.tools: tools has no {name!r}")
        case PythonTool():
            return resolve(section.target)
        case McpTool():
            return _mcp(name, section)


def _mcp(name: str, section: McpTool) -> Any:  # noqa: ANN401  # a source of tools
    if (section.url is None) == (section.command is None):
        raise Unusable(f"tools.{name}: needs either url or command")
    return _door("mcp_tools", "McpServer")(
        section.url or "",
        command=section.command or (),
        environment=section.env or None,
        headers=section.headers or None,
        only=section.only,
        prefix=section.prefix,
    )


def _agui(name: str, section: AgUiAgent) -> Agent:
    made: Agent = _door("agui_agent", "ag_ui_agent")(
        section.url,
        name=name,
        headers=section.headers or None,
        silence=section.silence,
        memory=section.memory,
        **_said(section),
    )
    return made


def _remote(name: str, section: RemoteAgent) -> Agent:
    made: Agent = _door("remote", "remote_agent")(
        section.url,
        name=name,
        binding=section.binding,
        credentials=_credentials(section.credentials),
        headers=section.headers,
        silence=section.silence,
        **_said(section),
    )
    return made


def _credentials(said: Credentials | None) -> Any:  # noqa: ANN401  # what the adapter takes
    match said:
        case None:
            return None
        case BearerSection():
            return _door("credentials", "Bearer")(said.token)
        case ApiKeySection():
            return _door("credentials", "ApiKey")(said.key, said.header)
        case ClientCredentialsSection():
            return _door("credentials", "ClientCredentials")(
                said.client_id,
                said.client_secret,
                said.token_url or "",
                said.scopes,
                said.audience,
            )


def _said(section: Described) -> dict[str, Any]:
    """Return what the section says of the agent itself, as keywords."""
    said = section.model_dump(include={*_CARD, *_POLICY, "concurrency"})
    return {key: value for key, value in said.items() if value is not None}


def _secured(made: Agent, security: Security | None) -> Agent:
    if security is None:
        return made
    unknown = [name for name in security.require if name not in security.schemes]
    if unknown:
        raise Unusable(f"agents.{made.name}.security.require: schemes has no {unknown[0]!r}")
    told: Json = security.model_dump(by_alias=True, exclude_defaults=True)
    return replace(made, card=made.card.model_copy(update={"security": told}))


def _door(module: str, function: str) -> Callable[..., Any]:
    """Return an adapter's constructor, imported when a file asks for it: each needs its extra."""
    found: Callable[..., Any] = getattr(
        importlib.import_module(f"headrace_worker.adapters.{module}"), function
    )
    return found
