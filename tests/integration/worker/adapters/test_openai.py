"""A model behind an OpenAI-compatible endpoint, in the suite of all adapters."""

from headrace_worker import Agent, tool
from headrace_worker.adapters import openai_agent
from tests.integration.worker.adapters.behaviour import Behaviour
from tests.integration.worker.adapters.office import Office


def build(url: str, office: Office) -> Agent:
    """Make the agent."""
    tools = [tool(office.mail)]
    return openai_agent(
        name="agent", model="small", base_url=url, api_key="k", tools=tools, backoff=0.0
    )


class TestOpenAI(Behaviour):
    """Its behaviour."""

    lacks = frozenset({"approvals"})
