"""A pydantic-ai agent, served unchanged.

From this folder: ``headrace dev --agents pydantic_dice:dice``. Needs ``headrace[pydantic-ai]``.
"""

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from headrace.adapters import pydantic_ai_agent

# Replaces a real model such as "openai:…": it calls every tool once and answers the same.
gambler = Agent(TestModel(custom_output_text="You rolled a four."), instructions="Roll the dice.")


@gambler.tool_plain
def roll(sides: int = 6) -> int:
    """Roll a die."""
    return 2 * sides // 3 or 4


dice = pydantic_ai_agent(gambler, name="dice", memory="task")
