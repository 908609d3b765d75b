"""What is for user interfaces alone, as parts."""

from headrace import parts
from headrace.events import Json
from headrace_worker.emission import (
    Activity,
    ActivityDelta,
    Custom,
    Raw,
    Signal,
    State,
    StateDelta,
    Step,
    Usage,
)
from headrace_worker.ids import LegIds


def part_of(said: Signal, ids: LegIds) -> Json:  # noqa: PLR0911  # one for each
    """Return the part that says it; ids that it needs and does not have are minted by `ids`."""
    match said:
        case State():
            return parts.state_part(said.state)
        case StateDelta():
            return parts.state_delta_part(list(said.patch))
        case Activity():
            return parts.activity_part(said.type, said.content, said.id or ids.mint("activity"))
        case ActivityDelta():
            return parts.activity_delta_part(list(said.patch), said.id)
        case Step():
            return parts.step_part(said.name, finished=said.finished)
        case Usage():
            return parts.usage_part(_usage(said))
        case Custom():
            return parts.custom_part(said.name, said.value)
        case Raw():
            return parts.raw_part(said.event, said.source)


def _usage(said: Usage) -> Json:
    """Return AG-UI's TokenUsage."""
    counts = {"inputTokens": said.input_tokens, "outputTokens": said.output_tokens}
    labels = {"provider": said.provider, "model": said.model}
    return {key: value for key, value in {**labels, **counts}.items() if value}
