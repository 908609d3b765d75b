"""New attempts: they retract what the previous attempt emitted after its last checkpoint."""

from headrace.model.events import ATTEMPT, DISCARDED_AFTER, Json
from headrace_gateway.protocols.agui.activities import Activities
from headrace_gateway.protocols.agui.output import Output
from headrace_gateway.protocols.agui.snapshot import StateEvents, emit_messages
from headrace_gateway.protocols.agui.view import AgentMessage, Held, HeldActivity, View


def take_back(output: Output, view: View, rest: dict[str, Held]) -> None:
    """Reduce the messages of `output` to `rest`, and to what a client keeps anyway.

    The official client keeps each activity that a snapshot omits, and reasoning if the snapshot has
    none at all; these are emptied, but for what changes surfaces of earlier runs. Messages of other
    outputs stay, because children outlive the attempts of their parent. The caller emits the
    snapshot.
    """
    before, view.messages = view.messages, rest
    has_reasoning = any(_is_reasoning(held) for held in _unchanged(output, before, rest))
    kept: dict[str, Held] = {}
    for key, held in before.items():
        if held.subagent != output.subagent:
            kept[key] = held
        elif key in rest:
            kept[key] = rest[key]
        elif isinstance(held, HeldActivity):
            kept[key] = held if held.is_change else Activities(output, view).blank(held)
        elif _is_reasoning(held) and not has_reasoning:
            kept[key] = AgentMessage(key, "reasoning", subagent=held.subagent)
            has_reasoning = True
    # `rest` may hold an older state of children, which may have produced more output since.
    view.messages = kept | {key: held for key, held in rest.items() if key not in kept}


def _unchanged(output: Output, before: dict[str, Held], rest: dict[str, Held]) -> list[Held]:
    others = [held for held in before.values() if held.subagent != output.subagent]
    return [*rest.values(), *others]


def _is_reasoning(held: Held) -> bool:
    return bool(held.shown()["role"] == "reasoning")


NAME = "headrace.attempt"
"""Name of the CUSTOM event that announces a new attempt."""


class AttemptEvents:
    """Keeps saved views and restores them when an attempt starts."""

    def __init__(self, output: Output, view: View, number: int) -> None:
        """Start with `view` as the one saved at the run's input."""
        self._output, self._view = output, view
        self._saved = {number: view.saved()}

    def save(self, generation: int) -> None:
        """Save the view as of `generation`, where the agent made a checkpoint."""
        first = min(self._saved)
        self._saved = {first: self._saved[first], generation: self._view.saved()}

    def begin(self, metadata: Json) -> None:
        """Emit the start of an attempt; from the second on, retract what it replaces."""
        after = metadata.get(DISCARDED_AFTER)
        if after is None:
            return
        self._output.end_own()
        self._output.emit("CUSTOM", name=NAME, value={"attempt": metadata[ATTEMPT]})
        before, state = self._view.messages, self._view.state
        self._view.restore(self._saved[max(g for g in self._saved if g <= after)])
        if self._view.state is not state:
            StateEvents(self._output, self._view).emit()
        rest, self._view.messages = self._view.messages, before
        take_back(self._output, self._view, rest)
        emit_messages(self._output, self._view)
