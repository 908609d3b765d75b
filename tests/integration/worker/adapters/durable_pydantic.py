"""An agent function whose pydantic-ai agent is durable, for workers in other processes."""

from typing import Any

from headrace import Agent, Retry, RunContext, agent
from tests.integration.worker.adapters.office import Office


def clerk_of(url: str, office: Office) -> Any:  # noqa: ANN401  # the library's
    """Make the framework's agent."""
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from headrace.adapters import FleetDurability

    model = OpenAIChatModel("small", provider=OpenAIProvider(base_url=url, api_key="k"))
    clerk = PydanticAgent(model, name="clerk", capabilities=[FleetDurability()])
    clerk.tool_plain(office.mail)
    return clerk


def build(url: str, office: Office) -> Agent:
    """Make the agent."""
    clerk = clerk_of(url, office)

    @agent(retry=Retry(backoff=0.0))
    async def notes(ctx: RunContext) -> str:
        result = await clerk.run(ctx.prompt)
        return str(result.output)

    return notes
