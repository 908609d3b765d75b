"""An agent that waits for a payment. From here: ``headrace dev --agents wait_for_payment:shop``.

It prints the address at which the payment provider reports the payment. To be the provider:
``curl -X POST ADDRESS -d '{"amount": 500}'``. Until then the task needs no worker.
"""

from collections.abc import AsyncIterator
from datetime import timedelta

from headrace import Emission, RunContext, Webhook, agent


@agent(description="Takes orders, and delivers them once they are paid.")
async def shop(ctx: RunContext) -> AsyncIterator[Emission]:
    """Take an order."""
    yield f"Pay for {ctx.prompt} at {await ctx.webhook('paid')}\n"
    try:
        paid = await ctx.wait(Webhook("paid"), timeout=timedelta(days=30))
    except TimeoutError:
        yield "The order is cancelled: it was not paid within 30 days."
        return
    yield f"Thanks for {paid.json()['amount']}. {ctx.prompt} is on its way."
