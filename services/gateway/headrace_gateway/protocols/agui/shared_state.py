"""The state that agent and client share: whole, or changed by patches."""

from headrace.model import json_patch
from headrace.model.events import Json
from headrace_gateway.protocols.agui.output import Output
from headrace_gateway.protocols.agui.view import View


class StateEvents:
    """Says STATE events, and keeps what they say."""

    def __init__(self, output: Output, view: View) -> None:
        """Say them to `output`."""
        self._output, self._view = output, view

    def snapshot(self, part: Json, _message: str) -> None:
        """Say the whole state, which a data part holds."""
        self._view.state = part["data"]
        self.say()

    def delta(self, part: Json, _message: str) -> None:
        """Say a change of the state.

        A client that cannot apply a patch is left behind, so one that does not fit is not said.

        Raises:
            ValueError: the patch does not fit the state.
        """
        self._view.state = json_patch.apply(self._view.state, part["data"])
        if part["data"]:
            self._output.emit("STATE_DELTA", delta=part["data"])

    def say(self) -> None:
        """Say what the state is."""
        self._output.emit("STATE_SNAPSHOT", snapshot=self._view.state)
