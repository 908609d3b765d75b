"""Which of a framework's agents goes on with a task, said to user interfaces.

The first one is the task's own. Another one, that it hands over to, is a subagent run until it ends
or hands over itself. What it says is still the task's answer.
"""

from headrace.sdk.context import RunContext
from headrace.sdk.signals import Subagent


class Speaker:
    """Who goes on with one run."""

    def __init__(self, ctx: RunContext, first: str) -> None:
        """Begin with the agent called `first`, which is the task's own."""
        self._ctx, self._first = ctx, first
        self._name, self._id, self._number = first, "", 0

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._name

    async def become(self, name: str) -> None:
        """Say that the agent called `name` goes on, unless it does already."""
        if name == self._name:
            return
        await self.end()
        self._name = name
        if name != self._first:
            self._number += 1
            ctx = self._ctx
            # Each attempt has ids of its own: clients take the id of a subagent run once.
            self._id = f"{ctx.task}.{ctx.run}.{ctx.attempt}.{self._number}"
            await ctx.emit(Subagent(name, self._id))

    async def end(self, *, suspended: bool = False) -> None:
        """Say that it has done its part, or, `suspended`, waits for the user."""
        if self._id:
            await self._ctx.emit(Subagent(self._name, self._id, finished=True, suspended=suspended))
            self._id = ""
