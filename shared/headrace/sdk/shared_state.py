"""The state that an agent shares with its user interface."""

import logging
from typing import Any

from headrace.model import a2ui, json_text, parts
from headrace.model.events import Json
from headrace.model.json_patch import Document, LimitExceeded, PatchFailed
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.signals import Activity, State, StateDelta, Surfaces

_log = logging.getLogger(__name__)


class SharedState:
    """State of one run: the client's initial state with the agent's updates applied.

    A patch applies as a whole or not at all. A client that starts with the same state can therefore
    apply every patch that is sent.
    """

    def __init__(self, state: Any = None) -> None:  # noqa: ANN401  # any JSON
        """Start with `state`; None means an empty object."""
        self._state = Document({} if state is None else state)

    @property
    def now(self) -> Any:  # noqa: ANN401  # any JSON
        """A copy of the current state."""
        return _copy(self._state.value)

    def replay(self, part: Json) -> None:
        """Apply an update of an earlier attempt, a part from the log."""
        kind = parts.event_type(part)
        try:
            if kind == parts.STATE_SNAPSHOT:
                self._state = Document(part["data"])
            elif kind == parts.STATE_DELTA:
                self._state = self._state.patched(part["data"])
        except (KeyError, PatchFailed):
            # The part is from a worker that does not check patches; gateways ignored it too.
            return

    def apply(self, output: State | StateDelta) -> State | StateDelta:
        """Apply the agent's update, and return what to send.

        Returns:
            `output` itself, or the whole state if the patch does not apply.

        Raises:
            TypeError: the update is not JSON.
            MalformedOutput: the state, or the patch, would be larger than may be.
        """
        try:
            self._state = self._updated(output)
        except LimitExceeded as excess:
            what = "state" if isinstance(output, State) else "state after this patch, or the patch,"
            raise MalformedOutput(f"the {what} {excess}") from None
        except PatchFailed as failure:
            _log.warning("dropped a state patch that does not apply: %s", failure)
            return State(self._state.value)
        return output

    def _updated(self, output: State | StateDelta) -> Document:
        if isinstance(output, StateDelta):
            return self._state.patched(_copy(list(output.patch)))
        state = Document(_copy(output.state))
        state.check()
        return state


def check_activity(output: Activity) -> None:
    """Check that an activity is no larger than may be.

    Raises:
        MalformedOutput: it is.
    """
    try:
        Document(output.content).check()
    except LimitExceeded as excess:
        raise MalformedOutput(f"the content of activity {output.id!r} {excess}") from None


def drawn(output: Surfaces) -> list[Json]:
    """Return the messages to send for `output`.

    Clients refuse to create a surface that they have, from this run or from an earlier one of the
    conversation, and take the deletion of one that they don't have. So it is deleted before.

    Raises:
        MalformedOutput: one is no message of A2UI, or they are larger than may be.
    """
    try:
        given = a2ui.check_messages(output.messages)
        Document(list(given)).check()
    except a2ui.SurfaceInvalid as invalid:
        raise MalformedOutput(f"Surfaces.{invalid}") from None
    except LimitExceeded as excess:
        raise MalformedOutput(f"Surfaces.messages: {excess}") from None
    sent = list[Json]()
    for message in given:
        if a2ui.CREATE in message:
            sent.append(a2ui.message(a2ui.DELETE, a2ui.surface_of(message)))
        sent.append(message)
    return sent


def _copy(value: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return a copy that does not change when the caller changes the original."""
    return json_text.decode(json_text.encode(value))
