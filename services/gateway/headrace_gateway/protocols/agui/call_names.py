"""The ids that clients receive for an agent's tool calls.

Models may use one id for several calls of a conversation, even of a run; clients find calls by id
alone. Which call a result belongs to follows from the order: the oldest one without a result.
"""

from collections.abc import Iterable, Mapping, Sequence

from headrace.model.run_ids import own_id
from headrace_gateway.protocols.agui.output import Output
from headrace_gateway.protocols.agui.view import ClientMessage, ToolMessage, View

type OpenCalls = Mapping[str, Sequence[str]]
"""Clients' ids of calls without a result by the agent's ids, in order."""


class CallNames:
    """Clients' ids of the calls of one agent in one run."""

    def __init__(self, output: Output, view: View, earlier: OpenCalls) -> None:
        """Name the calls of `output`; `earlier` are those of the task's earlier runs."""
        self._output, self._view, self._earlier = output, view, earlier
        self._made: dict[str, list[str]] = {}

    def next(self, own: str) -> str:
        """Return the id of another call with the agent's id `own`, and record it."""
        made = self._of(own)
        call = self._output.unique_call(own, len(made) + 1)
        self._made[own] = [*made, call]
        return call

    def latest(self, own: str) -> str | None:
        """Return the id of the run's latest call with the agent's id `own`, if it has made one."""
        made = self._of(own)
        return made[-1] if made else None

    def has_result(self, call: str) -> bool:
        """Return whether the agent has emitted a result of the call."""
        return isinstance(self._view.messages.get(result_id(call)), ToolMessage)

    def answered(self, own: str) -> str:
        """Return the id of the call that a result for the agent's id `own` belongs to."""
        if waiting := self._waiting(own):
            return waiting[0]
        known = self._of(own) or self._earlier.get(own) or self._of_client(own)
        # A result of an unknown call gets an id as its call would have.
        return known[-1] if known else self._output.unique_call(own, 1)

    def shown(self, own: Iterable[str]) -> list[str]:
        """Return the ids of calls without a result, for their ids as the agent lists them.

        An id that the agent lists twice stands for two calls.
        """
        taken: dict[str, int] = {}
        shown: list[str] = []
        for name in own:
            waiting, at = self._waiting(name), taken.get(name, 0)
            taken[name] = at + 1
            shown.append(waiting[at] if at < len(waiting) else self.latest(name) or name)
        return shown

    def open(self) -> OpenCalls:
        """Return the calls without a result, for the task's next run."""
        names = dict.fromkeys([*self._earlier, *self._made])
        return {own: waiting for own in names if (waiting := self._waiting(own))}

    def _of(self, own: str) -> list[str]:
        """Return the calls with that id that the client has: a new attempt retracts others."""
        made = self._made.get(own, ())
        return [call for call in made if self._view.caller_of(call) is not None]

    def _waiting(self, own: str) -> list[str]:
        calls = self._of(own) or self._earlier.get(own, ())
        return [call for call in calls if not self.has_result(call)]

    def _of_client(self, own: str) -> list[str]:
        """Return the calls with that id in the conversation that the client has sent."""
        sent = (m for m in self._view.messages.values() if isinstance(m, ClientMessage))
        return [call for message in sent for call in message.calls if own_id(call) == own]


def result_id(call: str) -> str:
    """Return the id of the message with the result of `call`, a client's id."""
    return f"{call}-result"
