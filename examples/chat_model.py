"""A model behind any OpenAI-compatible endpoint, with a tool.

From this folder: ``headrace dev --agents chat_model:oracle``. Needs ``headrace[openai]``, and a key
in ``OPENAI_API_KEY`` if the endpoint requires one.
"""

from typing import Annotated

from pydantic import Field

from headrace import ToolError, tool
from headrace.adapters import openai_agent

MODEL_URL = "http://127.0.0.1:11434/v1"
STOCK = {"nails": 500, "hammers": 2}


@tool
def in_stock(item: Annotated[str, Field(description="The item, in the plural.")]) -> int:
    """Tell how many of an item are in stock."""
    if item not in STOCK:
        raise ToolError(f"we don't sell {item}")
    return STOCK[item]


oracle = openai_agent(
    name="oracle",
    description="Answers questions about the shop's stock.",
    model="small",
    base_url=MODEL_URL,
    instruction="You work in a hardware shop. Answer briefly.",
    tools=[in_stock],
)
