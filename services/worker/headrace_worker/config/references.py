"""References between parts of the file, and fields that have no effect."""

from collections.abc import Iterator

from headrace_worker.config.errors import Finding, alternatives
from headrace_worker.config.model import Configuration, Model, ModelAgent

DEFAULT_MODEL = "gpt-5-mini"
"""Model of agents for which neither the file nor the environment names one."""

MODEL_OF_ENVIRONMENT = {
    "model": "OPENAI_MODEL",
    "base_url": "OPENAI_BASE_URL",
    "api_key": "OPENAI_API_KEY",
}
"""Variables for a model's fields, used if the file has no `llms`."""

_DEFAULT = "default"

_NO_ENGINE = (
    "has no effect, because models decide how to reason; use reasoning.effort, or write the "
    "steps in Python (type: python)"
)
_ENVIRONMENTS = (
    f"the model is {DEFAULT_MODEL} or the one in OPENAI_MODEL and OPENAI_BASE_URL, with the key "
    "OPENAI_API_KEY; declare it under llms"
)


def model_of(configuration: Configuration, section: ModelAgent) -> Model | None:
    """Return the agent's model, or None if the environment defines it."""
    if section.model is not None:
        return section.model
    name = section.llm or _default(configuration)
    return None if name is None else configuration.llms.get(name)


def _default(configuration: Configuration) -> str | None:
    names = [*configuration.llms]
    return names[0] if len(names) == 1 else _DEFAULT if _DEFAULT in names else None


def broken(configuration: Configuration) -> Iterator[Finding]:
    """Yield the references to names that the file does not define.

    In a file without any `llms` or `tools`, such references are not errors: see `without_effect`.
    """
    llms, tools = configuration.llms, configuration.tools
    for name, agent in configuration.agents.items():
        place = ("agents", name)
        schemes = agent.security.schemes if agent.security else {}
        for required in agent.security.require if agent.security else ():
            if required not in schemes:
                rule = (
                    f"{required!r} is not declared under schemes; "
                    f"{alternatives(required, [*schemes])}"
                )
                yield (*place, "security", "require"), rule
        if not isinstance(agent, ModelAgent):
            continue
        if agent.llm is not None and llms and agent.llm not in llms:
            rule = f"{agent.llm!r} is not declared under llms; {alternatives(agent.llm, [*llms])}"
            yield (*place, "llm"), rule
        if llms and agent.llm is None and agent.model is None and not _default(configuration):
            yield place, f"needs llm; declared: {', '.join(llms)}"
        for tool in agent.tools:
            if tools and tool not in tools:
                rule = f"{tool!r} is not declared under tools; {alternatives(tool, [*tools])}"
                yield (*place, "tools"), rule


def without_effect(configuration: Configuration) -> Iterator[Finding]:
    """Yield the fields that have no effect here, each with a remedy."""
    for name, agent in configuration.agents.items():
        if not isinstance(agent, ModelAgent):
            continue
        place = ("agents", name)
        if agent.reasoning.engine is not None:
            yield (*place, "reasoning", "engine"), _NO_ENGINE
        if agent.model is None and not configuration.llms:
            reason = (
                f"names {agent.llm!r}, but the file declares no llms" if agent.llm else "is not set"
            )
            yield (*place, "llm"), f"{reason}: {_ENVIRONMENTS}"
        if agent.tools and not configuration.tools:
            lost = ", ".join(agent.tools)
            rule = (
                f"the file declares no tools, so the agent can't call {lost}; declare them under "
                "tools"
            )
            yield (*place, "tools"), rule
