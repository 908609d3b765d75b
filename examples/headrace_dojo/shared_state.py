"""Shared state: a recipe that the user edits in a form, and the agent on request."""

from collections.abc import AsyncIterator
from typing import Any

from headrace import Card, Emission, RunContext, State, agent
from headrace.model.events import Json
from headrace_dojo.pacing import paced

_EMPTY: Json = {
    "title": "Recipe",
    "skill_level": "Beginner",
    "special_preferences": [],
    "cooking_time": "15 min",
    "ingredients": [],
    "instructions": [],
}


@agent(
    name="shared_state",
    description="Improves the recipe that you share with it.",
    card=Card(capabilities={"state": {"snapshots": True, "deltas": False}}),
)
async def shared_state(ctx: RunContext) -> AsyncIterator[Emission]:
    """Add what the user asks for to the client's recipe."""
    state = ctx.state
    recipe = _recipe(state)
    wish = ctx.prompt.strip() or "a pinch of salt"
    ingredient = {"icon": "🥕", "name": wish, "amount": "1"}
    improved = {
        **recipe,
        "ingredients": [*recipe["ingredients"], ingredient],
        "instructions": [*recipe["instructions"], f"Add {wish}."],
    }
    yield State({**(state if isinstance(state, dict) else {}), "recipe": improved})
    async for word in paced(f"“{improved['title']}” now has {wish}."):
        yield word


def _recipe(state: Any) -> Json:  # noqa: ANN401  # whatever the client sent
    """Return the recipe in `state`, completed with defaults."""
    sent = state.get("recipe") if isinstance(state, dict) else None
    recipe = {**_EMPTY, **(sent if isinstance(sent, dict) else {})}
    lists = {key: value for key, value in recipe.items() if isinstance(value, list)}
    return {**recipe, **{key: lists.get(key, []) for key in ("ingredients", "instructions")}}
