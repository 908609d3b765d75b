"""A pydantic-ai agent over its own OpenAI client, in the suite of all adapters."""

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from headrace_worker import Agent
from headrace_worker.adapters import pydantic_ai_agent
from tests.integration.worker.adapters.behaviour import Behaviour
from tests.integration.worker.adapters.office import Office


def build(url: str, office: Office) -> Agent:
    """Make the agent."""
    model = OpenAIChatModel("small", provider=OpenAIProvider(base_url=url, api_key="k"))
    wrapped = PydanticAgent(model, system_prompt="Be brief.")
    wrapped.tool_plain(office.mail)
    wrapped.tool_plain(requires_approval=True)(office.refund)
    return pydantic_ai_agent(wrapped, name="agent", backoff=0.0)


class TestPydanticAI(Behaviour):
    """Its behaviour."""
