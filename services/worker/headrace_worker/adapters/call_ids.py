"""Ids of tool calls, for models whose ids are missing or repeat within a task's log."""

from headrace.sdk.context import RunContext


def own_call_id(ctx: RunContext, used: set[str], theirs: str) -> str:
    """Return the call's id in the log, and add it to `used`, the ids in the log.

    It is the model's id, `theirs`, unless that is empty or used already.
    """
    own = theirs if theirs and theirs not in used else ctx.new_id("call")
    used.add(own)
    return own
