"""The state that an agent shares with its user interface."""

import logging
from typing import Any

from headrace.model import json_patch, json_text, parts
from headrace.model.events import Json
from headrace.sdk.signals import State, StateDelta

_log = logging.getLogger(__name__)


class SharedState:
    """State of one run: the client's initial state with the agent's updates applied.

    A patch applies as a whole or not at all. A client that starts with the same state can therefore
    apply every patch that is sent.
    """

    def __init__(self, state: Any = None) -> None:  # noqa: ANN401  # any JSON
        """Start with `state`; None means an empty object."""
        self._state = {} if state is None else state

    @property
    def now(self) -> Any:  # noqa: ANN401  # any JSON
        """A copy of the current state."""
        return _copy(self._state)

    def replay(self, part: Json) -> None:
        """Apply an update of an earlier attempt, a part from the log."""
        kind = parts.event_type(part)
        try:
            if kind == parts.STATE_SNAPSHOT:
                self._state = part["data"]
            elif kind == parts.STATE_DELTA:
                self._state = json_patch.apply(self._state, part["data"])
        except (KeyError, json_patch.PatchFailed):
            # The part is from a worker that does not check patches; gateways ignored it too.
            return

    def take(self, output: State | StateDelta) -> State | StateDelta:
        """Apply the agent's update, and return what to send.

        Returns:
            `output` itself, or the whole state if the patch does not apply.

        Raises:
            TypeError: the update is not JSON.
        """
        if isinstance(output, State):
            self._state = _copy(output.state)
            return output
        try:
            self._state = json_patch.apply(self._state, _copy(list(output.patch)))
        except json_patch.PatchFailed as failure:
            _log.warning("dropped a state patch that does not apply: %s", failure)
            return State(self._state)
        return output


def _copy(value: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return a copy that does not change when the caller changes the original."""
    return json_text.decode(json_text.encode(value))
