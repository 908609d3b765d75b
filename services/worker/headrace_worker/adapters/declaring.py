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
    bare_message: bool
    streaming: bool
    push_notifications: bool
    extensions: Sequence[Json]
    concurrency: int | None
    max_attempts: int
    backoff: float
    timeout: float | None
    follow_ups: FollowUps
