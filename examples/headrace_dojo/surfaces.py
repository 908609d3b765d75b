"""Surfaces (A2UI): a form that the agent describes, the page draws and the user sends."""

from collections.abc import AsyncIterator
from typing import Any

from headrace import BASIC_CATALOG, Card, Emission, RunContext, Surfaces, agent

_FORM: list[dict[str, Any]] = [
    {"id": "root", "component": "Column", "children": ["title", "name", "guests", "book"]},
    {"id": "title", "component": "Text", "text": "A table for tonight", "variant": "h3"},
    {"id": "name", "component": "TextField", "label": "Name", "value": {"path": "/name"}},
    {"id": "guests", "component": "Text", "text": {"path": "/guests"}},
    {
        "id": "book",
        "component": "Button",
        "child": "book_text",
        "action": {"event": {"name": "book", "context": {"name": {"path": "/name"}}}},
    },
    {"id": "book_text", "component": "Text", "text": {"path": "/button"}},
]


@agent(
    name="surfaces",
    description="Shows a form to book a table, and books it.",
    card=Card(surfaces=[BASIC_CATALOG]),
)
async def surfaces(ctx: RunContext) -> AsyncIterator[Emission]:
    """Draw the form, or take what the user has sent with it."""
    action = ctx.surface_action
    if action is None:
        yield "Who is coming? "
        data = {"name": ctx.prompt, "guests": "Two guests", "button": "Book"}
        yield Surfaces.draw(f"booking-{ctx.task}", _FORM, data)
        return
    name = action.context.get("name") or "you"
    yield Surfaces.change(action.surface, "/button", "Booked")
    yield f"A table for {name} is booked."
