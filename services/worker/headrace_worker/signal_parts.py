"""Signals as parts."""

from typing import Any

from headrace.model import parts
from headrace.model.events import Json
from headrace.sdk.signals import (
    Activity,
    ActivityDelta,
    Custom,
    Messages,
    Raw,
    Signal,
    State,
    StateDelta,
    Step,
    Subagent,
    Usage,
)
from headrace_worker.ids import RunIds
from headrace_worker.shared_state import SharedState

_LABELS = {"provider": "provider", "model": "model"}
_COUNTS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "reasoning_tokens": "reasoningTokens",
    "cached_input_tokens": "cachedInputTokens",
    "cache_write_input_tokens": "cacheWriteInputTokens",
}
"""Fields of `Usage`, with AG-UI's names for them."""


def part_of(said: Signal, ids: RunIds, state: SharedState) -> Json:  # noqa: PLR0911  # one for each
    """Return the part that says it; ids that it needs and does not have are minted by `ids`.

    What it says of the shared state, `state` takes first, and decides what is told.
    """
    match said:
        case State() | StateDelta():
            return _state(state.take(said))
        case Messages():
            return parts.messages_part(list(said.messages))
        case Activity():
            return parts.activity_part(said.type, said.content, said.id or ids.mint("activity"))
        case ActivityDelta():
            return parts.activity_delta_part(list(said.patch), said.id)
        case Step():
            return parts.step_part(said.name, finished=said.finished)
        case Subagent():
            return _subagent(said)
        case Usage():
            return parts.usage_part(_usage(said))
        case Custom():
            return parts.custom_part(said.name, said.value)
        case Raw():
            return parts.raw_part(said.event, said.source)


def _state(told: State | StateDelta) -> Json:
    if isinstance(told, State):
        return parts.state_part(told.state)
    return parts.state_delta_part(list(told.patch))


def _subagent(said: Subagent) -> Json:
    if said.finished:
        outcome = "suspended" if said.suspended else "success"
        return parts.subagent_end_part(said.id, said.name, outcome)
    return parts.subagent_part(said.id, said.name)


def usage_of(told: Any) -> Usage:  # noqa: ANN401  # any JSON
    """Return the report that AG-UI's TokenUsage tells, as far as it is one."""
    held = told if isinstance(told, dict) else {}
    said: dict[str, Any] = {key: str(held.get(name) or "") for key, name in _LABELS.items()}
    for key, name in _COUNTS.items():
        if isinstance(count := held.get(name), int):
            said[key] = count
    return Usage(**said)


def _usage(said: Usage) -> Json:
    """Return AG-UI's TokenUsage."""
    told = {name: getattr(said, key) for key, name in {**_LABELS, **_COUNTS}.items()}
    return {name: value for name, value in told.items() if value}
