"""Reasoning: thoughts before the answer, with an encrypted value for the provider."""

from collections.abc import AsyncIterator

from headrace import Card, Emission, RunContext, Thinking, agent
from headrace_dojo.pacing import paced


@agent(
    name="reasoning",
    description="Thinks aloud before it answers.",
    card=Card(
        capabilities={"reasoning": {"supported": True, "streaming": True, "encrypted": True}}
    ),
)
async def reasoning(ctx: RunContext) -> AsyncIterator[Emission]:
    """Emit two blocks of reasoning, then the answer."""
    words = ctx.prompt.split()
    async for word in paced(f"The question has {len(words)} words. "):
        yield Thinking(word, title="Counting")
    yield Thinking("That is settled.", encrypted="c2VhbGVk", end=True)
    async for word in paced("Its first letters make: "):
        yield Thinking(word, title="Looking for a meaning")
    initials = "".join(word[0] for word in words)
    yield Thinking(initials, end=True)
    async for word in paced(f"After some thought: {initials}."):
        yield word
