"""An agent of the OpenAI Agents SDK over the official client, in the suite of all adapters."""

from typing import Any

from headrace import Agent, Retry, RunContext, State
from tests.integration.worker.adapters.behaviour import (
    ApprovalsBesideClientTools,
    ApprovalsInTime,
    AsksItsModel,
    Images,
    SharedState,
    StreamsArguments,
)
from tests.integration.worker.adapters.office import Office


def build(url: str, office: Office, **options: Any) -> Agent:  # noqa: ANN401  # the adapter's
    """Make the agent."""
    from agents import Agent as SdkAgent
    from agents import OpenAIChatCompletionsModel, RunContextWrapper, function_tool
    from openai import AsyncOpenAI

    from headrace.adapters import openai_agents_agent

    async def put(ctx: RunContextWrapper[RunContext], item: str) -> str:
        """Add to the state that is shared."""
        state = ctx.context.state
        await ctx.context.emit(State({"items": [*state["items"], item]}))
        return "put"

    client = AsyncOpenAI(base_url=url, api_key="k")
    wrapped: SdkAgent[RunContext] = SdkAgent(
        "clerk",
        instructions="Be brief.",
        model=OpenAIChatCompletionsModel("small", client),
        tools=[
            function_tool(put),
            function_tool(office.mail),
            function_tool(office.refund, needs_approval=True),
        ],
    )
    return openai_agents_agent(wrapped, name="agent", retry=Retry(backoff=0.0), **options)


class TestOpenAIAgents(
    StreamsArguments, AsksItsModel, Images, ApprovalsBesideClientTools, ApprovalsInTime, SharedState
):
    """Its behaviour."""

    imports = ("headrace.adapters.openai_agents.agent",)
