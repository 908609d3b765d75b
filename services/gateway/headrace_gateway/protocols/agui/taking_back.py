"""Taking messages back: what a snapshot of the rest leaves of them in a client."""

from headrace_gateway.protocols.agui.activities import Activities
from headrace_gateway.protocols.agui.held import Activity, Held, Spoken
from headrace_gateway.protocols.agui.output import Output
from headrace_gateway.protocols.agui.view import View


def take_back(output: Output, view: View, rest: dict[str, Held]) -> None:
    """Leave only `rest` of the messages that `output` has said, and what of them a client keeps.

    The official client keeps each activity that a snapshot omits, and reasoning if the snapshot
    has none at all: these are emptied. What others said holds: children outlive the attempts of
    their parent, whoever relays them. The caller says the snapshot.
    """
    before, view.messages = view.messages, rest
    has_reasoning = any(_is_reasoning(held) for held in _staying(output, before, rest))
    kept: dict[str, Held] = {}
    for key, held in before.items():
        if held.subagent != output.subagent:
            kept[key] = held
        elif key in rest:
            kept[key] = rest[key]
        elif isinstance(held, Activity):
            kept[key] = Activities(output, view).blank(held)
        elif _is_reasoning(held) and not has_reasoning:
            kept[key] = Spoken(key, "reasoning", subagent=held.subagent)
            has_reasoning = True
    # `rest` may hold what was saved of children, who have said more since.
    view.messages = kept | {key: held for key, held in rest.items() if key not in kept}


def _staying(output: Output, before: dict[str, Held], rest: dict[str, Held]) -> list[Held]:
    others = [held for held in before.values() if held.subagent != output.subagent]
    return [*rest.values(), *others]


def _is_reasoning(held: Held) -> bool:
    return bool(held.shown()["role"] == "reasoning")
