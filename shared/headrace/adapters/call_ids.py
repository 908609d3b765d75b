"""Ids of tool calls, for models whose ids are missing or repeat within a task's log."""

from headrace.sdk.context import RunContext


class CallIds(dict[str, str]):
    """The ids of a run's calls in the log, by the model's own."""

    def __init__(self, ctx: RunContext, used: set[str]) -> None:
        """Start without calls; `used` are the ids in the log, to which new ones are added."""
        super().__init__()
        self._ctx, self._used = ctx, used

    def add(self, theirs: str) -> str:
        """Return the id of a new call: the model's, unless that is empty or used already."""
        own = theirs if theirs and theirs not in self._used else self._ctx.new_id("call")
        self._used.add(own)
        self[theirs] = own
        return own

    def of(self, theirs: str) -> str:
        """Return the id of a call."""
        return self.get(theirs, theirs)
