"""The state that an agent shares with its user interface, as the worker keeps it in step."""

import logging
from typing import Any

import orjson

from headrace.model import json_patch, parts
from headrace.model.events import Json
from headrace.sdk.signals import State, StateDelta

_log = logging.getLogger(__name__)


class SharedState:
    """One run's state: what the client sent with it, then what the agent makes of it.

    A patch applies as a whole or not at all, so a client that starts with the same state can apply
    every patch that is said.
    """

    def __init__(self, state: Any = None) -> None:  # noqa: ANN401  # any JSON
        """Begin with `state`; None: an empty object."""
        self._state = {} if state is None else state

    @property
    def now(self) -> Any:  # noqa: ANN401  # any JSON
        """A copy of the state as it is."""
        return _copy(self._state)

    def replay(self, part: Json) -> None:
        """Take what an earlier attempt said, a part of its log."""
        kind = parts.event_type(part)
        try:
            if kind == parts.STATE_SNAPSHOT:
                self._state = part["data"]
            elif kind == parts.STATE_DELTA:
                self._state = json_patch.apply(self._state, part["data"])
        except (KeyError, json_patch.PatchFailed):
            # Said by a worker that does not check; gateways left it out too.
            return

    def take(self, said: State | StateDelta) -> State | StateDelta:
        """Keep what the agent says, and return what is to be told.

        That is `said` itself, or, for a patch that does not fit, the state as it stands.

        Raises:
            TypeError: it is not JSON.
        """
        if isinstance(said, State):
            self._state = _copy(said.state)
            return said
        try:
            self._state = json_patch.apply(self._state, _copy(list(said.patch)))
        except json_patch.PatchFailed as failure:
            _log.warning("dropped a state patch that does not apply: %s", failure)
            return State(self._state)
        return said


def _copy(value: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return a copy that stays as it is, whatever its owner does with the original."""
    return orjson.loads(orjson.dumps(value))
