"""Two agents of Google's ADK, one of which transfers tasks to the other.

From this folder: ``headrace dev --agents adk_transfer:desk``. Needs ``headrace[google-adk]`` and
``GOOGLE_API_KEY``.
"""

from google.adk.agents import LlmAgent
from google.adk.tools.function_tool import FunctionTool

from headrace.adapters import adk_agent

small = "gemini-2.5-flash"


def refund(order: str) -> str:
    """Refund an order."""
    return f"{order} is refunded"


refunds = LlmAgent(
    name="refunds",
    description="Refunds orders.",
    instruction="Refund the order that the user names.",
    model=small,
    tools=[FunctionTool(refund, require_confirmation=True)],
)
front = LlmAgent(
    name="front",
    instruction="Transfer questions about money to refunds.",
    model=small,
    sub_agents=[refunds],
)

desk = adk_agent(front, name="desk", memory="task")
