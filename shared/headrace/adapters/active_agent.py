"""The agent of a framework that currently works on a task, shown to user interfaces.

The first agent is the task's own. An agent that it hands over to is shown as a subagent run, which
ends with the agent's work or its own handoff. Its output is still the task's answer.
"""

from headrace.sdk.context import RunContext
from headrace.sdk.signals import Subagent


class ActiveAgent:
    """The agent that currently works on one run."""

    def __init__(self, ctx: RunContext, first: str) -> None:
        """Start with the agent `first`, which is the task's own."""
        self._ctx, self._first = ctx, first
        self._name, self._id, self._number = first, "", 0

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._name

    async def switch_to(self, name: str) -> None:
        """Emit that the agent `name` continues, unless it is the current one."""
        if name == self._name:
            return
        await self.end()
        self._name = name
        if name != self._first:
            self._number += 1
            ctx = self._ctx
            # Ids are unique to each attempt: clients accept the id of a subagent run once.
            self._id = f"{ctx.task}.{ctx.run}.{ctx.attempt}.{self._number}"
            await ctx.emit(Subagent(name, self._id))

    async def end(self, *, suspended: bool = False) -> None:
        """Emit that the agent is finished or, if `suspended`, waits for the user."""
        if self._id:
            await self._ctx.emit(Subagent(self._name, self._id, finished=True, suspended=suspended))
            self._id = ""
