"""A model behind an OpenAI-compatible endpoint, in the suite of all adapters."""

from headrace_worker import Agent, RunContext, tool
from headrace_worker.adapters import openai_agent
from tests.integration.worker.adapters.behaviour import Behaviour
from tests.integration.worker.adapters.office import Office


async def put(ctx: RunContext, item: str) -> str:
    """Add to the state that is shared."""
    await ctx.set_state({"items": [*ctx.state["items"], item]})
    return "put"


def build(url: str, office: Office) -> Agent:
    """Make the agent."""
    tools = [tool(office.mail), tool(put)]
    return openai_agent(
        name="agent", model="small", base_url=url, api_key="k", tools=tools, backoff=0.0
    )


class TestOpenAI(Behaviour):
    """Its behaviour."""

    lacks = frozenset({"approvals"})
    shares_state = True
