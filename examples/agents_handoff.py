"""Two agents of the OpenAI Agents SDK, one of which hands over to the other.

From this folder: ``headrace dev --agents agents_handoff:desk``. Needs ``headrace[openai-agents]``
and an OpenAI-compatible endpoint at `URL`, such as Ollama's.
"""

from agents import Agent, OpenAIChatCompletionsModel, function_tool
from openai import AsyncOpenAI

from headrace.adapters import openai_agents_agent

URL = "http://127.0.0.1:11434/v1"
small = OpenAIChatCompletionsModel("qwen3:4b", AsyncOpenAI(base_url=URL, api_key="none"))


@function_tool(needs_approval=True)
def refund(order: str) -> str:
    """Refund an order."""
    return f"{order} is refunded"


refunds = Agent(
    "refunds", instructions="Refund the order that the user names.", model=small, tools=[refund]
)
front = Agent(
    "front",
    instructions="Hand questions about money over to refunds.",
    model=small,
    handoffs=[refunds],
)

desk = openai_agents_agent(front, name="desk", memory="task")
