"""Keywords of `headrace.sdk.agent` that every adapter accepts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

from headrace.model.agent_card import Caution
from headrace.model.events import Json
from headrace.sdk.agent import Agent, FollowUps, Interceptor
from headrace.sdk.card import Card
from headrace.sdk.policy import Limits, Retry

ANY_MEDIA = ("*/*",)
"""Input modes of agents that check their input themselves."""


class Declaration(TypedDict, total=False):
    """Keywords that are passed on to `agent`, which documents them."""

    description: str
    version: str
    pinned: bool
    card: Card
    bare_message: bool
    retry: Retry
    limits: Limits
    follow_ups: FollowUps
    interceptors: Sequence[Interceptor]


_NO_CARD = Card()


def declare_card(declared: Declaration, found: Card) -> None:
    """Complete the declared card with the fields of `found` that it leaves out."""
    stated: object = declared.get("card", _NO_CARD)
    if isinstance(stated, Card):  # else `agent` refuses it
        declared["card"] = replace(found, **stated.stated())


def declare_capabilities(
    declared: Declaration,
    *,
    client_tools: bool = False,
    structured: bool = False,
    approvals: bool = False,
    interrupts: bool = False,
    handoffs: bool = False,
) -> None:
    """Declare the agent's AG-UI capabilities; values already declared take precedence.

    Args:
        declared: The declaration to complete.
        client_tools: Whether its model is offered the tools of clients.
        structured: Whether its output is not text.
        approvals: Whether it has tools that need approval.
        interrupts: Whether it may ask for input in other ways.
        handoffs: Whether it can hand over a task to other agents.
    """
    found: dict[str, Json] = {}
    if client_tools:
        found["tools"] = {"supported": True, "clientProvided": True}
    if structured:
        found["output"] = {"structuredOutput": True}
    if approvals or interrupts:
        found["humanInTheLoop"] = {"supported": True, "approvals": approvals, "interrupts": True}
    if handoffs:
        found["multiAgent"] = {"supported": True, "handoffs": True}
    card: object = declared.get("card", _NO_CARD)
    if not isinstance(card, Card):  # `agent` refuses it
        return
    own = (card.capabilities or {}).items()
    declared["card"] = replace(
        card,
        capabilities=found
        | {
            category: found.get(category, {}) | value if isinstance(value, dict) else value
            for category, value in own
        },
    )


def with_caution(agent: Agent, caution: Caution | None) -> Agent:
    """Return the agent with what operators should know about it, if there is anything."""
    if caution is None:
        return agent
    card = agent.card.model_copy(update={"cautions": [*agent.card.cautions, caution]})
    return replace(agent, card=card)
