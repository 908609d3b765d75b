"""What every adapter can be told of its agent: the keywords of `headrace.sdk.agent`."""

from collections.abc import Sequence
from typing import TypedDict

from headrace.model.agent_card import Provider
from headrace.model.events import Json
from headrace.sdk.agent import Skill
from headrace.sdk.policy import FollowUps

ANY_MEDIA = ("*/*",)
"""What agents take that look at their input themselves, as they do where they come from."""


class Declaration(TypedDict, total=False):
    """Keywords that are handed on to `agent`, which says what each means."""

    display_name: str
    description: str
    version: str
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
    concurrency: int | None
    max_attempts: int
    backoff: float
    timeout: float | None
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
    """Declare in AG-UI's words what the agent is found to do; what is declared already wins.

    `client_tools`: its model is offered the tools that clients bring. `structured`: its output is
    no text. `approvals`: it has tools that people approve. `interrupts`: it may ask otherwise.
    `handoffs`: it has agents that a task may be handed over to.
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
    said = declared.get("capabilities") or {}
    declared["capabilities"] = found | {
        category: found.get(category, {}) | own if isinstance(own, dict) else own
        for category, own in said.items()
    }
