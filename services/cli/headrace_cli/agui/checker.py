"""Checking a run's events, one by one."""

from headrace_cli.agui.conversation import Conversation
from headrace_cli.agui.finding import Finding
from headrace_cli.agui.items import Items
from headrace_cli.agui.lifecycle import Lifecycle
from headrace_cli.agui.patches import Patches
from headrace_cli.agui.shape import Shape
from headrace_cli.client import Json


class Checker:
    """Says of each event of a run which rules it keeps and which it breaks."""

    def __init__(self, asked: Json) -> None:
        """Check the run that the RunAgentInput `asked` starts."""
        self._lifecycle = Lifecycle(asked)
        self._rules = (
            Shape(modern=asked.get("protocolVersion") is not None),
            self._lifecycle,
            Items(),
            Conversation(asked["messages"]),
            Patches(asked.get("state")),
        )

    def take(self, event: Json) -> list[Finding]:
        """Check the next event."""
        return [finding for rules in self._rules for finding in rules.check(event)]

    def end(self) -> list[Finding]:
        """Check the stream's end."""
        return list(self._lifecycle.end())
