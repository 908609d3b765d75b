"""Keywords of `headrace.sdk.agent` that every adapter accepts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

from headrace.model.agent_card import Caution, Provider
from headrace.model.events import Json
from headrace.sdk.agent import Agent, FollowUps, Skill
from headrace.sdk.policy import Limits, Retry

ANY_MEDIA = ("*/*",)
"""Input modes of agents that check their input themselves."""


class Declaration(TypedDict, total=False):
    """Keywords that are passed on to `agent`, which documents them."""

    display_name: str
    description: str
    version: str
    pinned: bool
    icon_url: str
    documentation_url: str
    provider: Provider | None
    skills: Sequence[Skill | Json]
    input_modes: Sequence[str]
    output_modes: Sequence[str]
    capabilities: Json | None
    bare_message: bool
    streaming: bool
    push_notifications: bool
    extensions: Sequence[Json]
    retry: Retry
    limits: Limits
    follow_ups: FollowUps


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
    capabilities = declared.get("capabilities") or {}
    declared["capabilities"] = found | {
        category: found.get(category, {}) | own if isinstance(own, dict) else own
        for category, own in capabilities.items()
    }


def with_caution(agent: Agent, caution: Caution | None) -> Agent:
    """Return the agent with what operators should know about it, if there is anything."""
    if caution is None:
        return agent
    card = agent.card.model_copy(update={"cautions": [*agent.card.cautions, caution]})
    return replace(agent, card=card)
