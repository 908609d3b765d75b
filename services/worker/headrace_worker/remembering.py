"""The conversation that a run is part of, wherever it is kept."""

from typing import Literal

from headrace_worker.context import RunContext
from headrace_worker.transcript import (
    Transcript,
    Turn,
    answered,
    turns_of_agui,
    turns_of_log,
    turns_of_task,
)

type Memory = Literal["context", "task", "none"]
"""How far back a model remembers: the whole conversation, the task, or the message alone. An AG-UI
client sends the conversation with each run; then that is it."""


async def conversation(ctx: RunContext, memory: Memory = "context") -> list[Turn]:
    """Return the turns up to this run's input, which is the last.

    Raises:
        StateUnavailable: task state does not answer.
        LogLost, BusUnavailable: the log is gone, or does not answer.
    """
    told = Transcript()
    told.take_input(ctx.parts)
    messages = ctx.agui.get("messages") or []
    if memory == "none":
        return answered(told.turns)
    if messages and not ctx.agui.get("resume"):
        return answered(turns_of_agui(messages, ctx.parts))
    if ctx.leg > 1:
        # Its last event is this run's input.
        told.turns = turns_of_log(await ctx.retell())
    earlier = await ctx.context_history() if memory == "context" else []
    return answered([*(turn for task in earlier for turn in turns_of_task(task)), *told.turns])
