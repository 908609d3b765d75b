"""Orders: one agent checks them, asks another one, and asks a person if it can't tell.

An order is data such as ``{"id": 7, "article": "nails", "quantity": 12}``, as a trigger makes it of
an event (docs/triggers.md), or a text such as ``12 nails``.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Self

from headrace import Card, Data, Emission, InputRequired, Reject, RunContext, agent
from headrace.model.events import Json

_STOCK = {"nails": 7, "screws": 40}
_PARTIAL: Json = {
    "type": "object",
    "properties": {"ship": {"type": "boolean", "title": "Ship what is left"}},
    "required": ["ship"],
}


@agent(description="Tells how many pieces of an article are left.")
async def stock(ctx: RunContext) -> AsyncIterator[Emission]:
    """Look the article up."""
    yield Data({"article": ctx.prompt, "left": _STOCK.get(ctx.prompt, 0)}, "stock")


@agent(
    description="Checks an order; asks whether to ship less if there is not enough.",
    card=Card(input_modes=["text/plain", "application/json"]),
)
async def orders(ctx: RunContext) -> AsyncIterator[Emission]:
    """Ask `stock`, and a person if the order can't be shipped as it is."""
    order = _Order.of((await ctx.history())[0]["parts"][0])
    if order is None:
        yield Reject("Send an order: a quantity and an article, such as 12 nails")
        return
    found = await ctx.delegate("stock", order.article)
    left = next(part["data"]["left"] for part in found.parts if "data" in part)
    if ctx.run == 1 and 0 < left < order.quantity:
        question = f"Order {order.id} is for {order.quantity} {order.article}: ship {left}?"
        approval = {"id": f"ship-{ctx.task}", "reason": "confirmation", "message": question}
        yield InputRequired(question, _PARTIAL, [{**approval, "responseSchema": _PARTIAL}])
        return
    is_shipped = ctx.run == 1 or _ships(ctx.parts[0])
    shipped = min(left, order.quantity) if is_shipped else 0
    yield f"{shipped} of {order.quantity} {order.article} shipped."
    yield Data({"id": order.id, "article": order.article, "shipped": shipped}, "decision")


@dataclass(frozen=True, slots=True)
class _Order:
    id: str
    article: str
    quantity: int

    @classmethod
    def of(cls, part: Json) -> Self | None:
        match part:
            case {"data": {"article": str(article), "quantity": int(quantity), **rest}}:
                return cls(str(rest.get("id", "?")), article, max(quantity, 0))
            case {"text": str(text)}:
                number, _, article = text.strip().partition(" ")
                return cls("?", article, int(number)) if number.isdecimal() else None
        return None


def _ships(part: Json) -> bool:
    """Return whether a person agrees, with data as in the schema or with text."""
    match part:
        case {"data": {"ship": bool(ship)}}:
            return ship
        case {"text": str(text)}:
            return text.strip().lower() in {"yes", "y", "true"}
    return False
