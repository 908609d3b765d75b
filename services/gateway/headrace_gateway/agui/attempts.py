"""A new attempt: what the one before had not saved is taken back."""

from headrace.events import ATTEMPT, DISCARDED_AFTER, Json
from headrace_gateway.agui.activities import Activities
from headrace_gateway.agui.held import Activity, Held, Spoken
from headrace_gateway.agui.output import Output
from headrace_gateway.agui.shared_state import SharedState
from headrace_gateway.agui.snapshot import say_messages
from headrace_gateway.agui.view import View

NAME = "headrace.attempt"
"""Name of the CUSTOM event that tells a client of a new attempt."""


class Attempts:
    """Remembers what was saved, and goes back to it."""

    def __init__(self, output: Output, view: View, leg: int) -> None:
        """Begin with `view` as saved at the leg's input."""
        self._output, self._view = output, view
        self._saved = {leg: view.saved()}

    def save(self, generation: int) -> None:
        """Remember the view as of `generation`, with which the agent made a checkpoint."""
        first = min(self._saved)
        self._saved = {first: self._saved[first], generation: self._view.saved()}

    def begin(self, metadata: Json) -> None:
        """Say that an attempt begins; from the second on, take back what it replaces."""
        after = metadata.get(DISCARDED_AFTER)
        if after is None:
            return
        self._output.end_own()
        self._output.emit("CUSTOM", name=NAME, value={"attempt": metadata[ATTEMPT]})
        before, state = self._view.messages, self._view.state
        self._view.restore(self._saved[max(g for g in self._saved if g <= after)])
        if self._view.state is not state:
            SharedState(self._output, self._view).say()
        self._view.messages = self._as_client_keeps(before, self._view.messages)
        say_messages(self._output, self._view)

    def _as_client_keeps(self, before: dict[str, Held], after: dict[str, Held]) -> dict[str, Held]:
        """Return `after` in the client's order, with what a snapshot alone leaves there: emptied.

        The official client keeps each activity that a snapshot omits, and reasoning if the
        snapshot has none at all.
        """
        kept: dict[str, Held] = {}
        of_children = [held for held in before.values() if held.subagent]
        has_reasoning = any(map(_is_reasoning, [*self._view.messages.values(), *of_children]))
        for key, held in before.items():
            if held.subagent:
                # What children said holds, whoever relays it.
                kept[key] = held
            elif key in after:
                kept[key] = after[key]
            elif isinstance(held, Activity):
                kept[key] = Activities(self._output, self._view).blank(held)
            elif _is_reasoning(held) and not has_reasoning:
                kept[key] = Spoken(key, "reasoning")
                has_reasoning = True
        return kept | after


def _is_reasoning(held: Held) -> bool:
    return bool(held.shown()["role"] == "reasoning")
