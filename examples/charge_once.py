"""An agent that charges a card once. From this folder: ``headrace dev --agents charge_once:shop``.

Its worker may be killed at any moment. The payment provider is a table: like real ones, it does a
charge with a key that it knows only once.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing

from headrace import Emission, RunContext, agent


def provider() -> sqlite3.Connection:
    """Return a connection to the payment provider."""
    books = sqlite3.connect("payments.db")
    books.execute("CREATE TABLE IF NOT EXISTS charges (key TEXT PRIMARY KEY, cents INTEGER)")
    return books


def charge(cents: int, *, idempotency_key: str) -> str:
    """Charge the card and return the receipt's number."""
    with closing(provider()) as books, books:
        charge = "INSERT INTO charges VALUES (?, ?) ON CONFLICT DO NOTHING"
        books.execute(charge, (idempotency_key, cents))
        [number] = books.execute(
            "SELECT rowid FROM charges WHERE key = ?", (idempotency_key,)
        ).fetchone()
    return f"R-{number}"


async def price_of(order: str) -> int:
    """Return the order's price in cents."""
    await asyncio.sleep(0.05)
    return 100 * len(order)


@agent(description="Takes orders, and charges for each of them once.")
async def shop(ctx: RunContext) -> AsyncIterator[Emission]:
    """Take an order."""
    cents = await ctx.step("price", price_of, ctx.prompt)
    yield f"{ctx.prompt} costs {cents / 100:.2f}.\n"
    receipt = await ctx.step("charge", charge, cents)
    yield f"Paid: {receipt}"
