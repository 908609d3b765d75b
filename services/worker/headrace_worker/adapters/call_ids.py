"""Ids of tool calls, where a model's may come twice in a task's log, or be missing."""

from headrace.sdk.context import RunContext


def own_call_id(ctx: RunContext, used: set[str], theirs: str) -> str:
    """Return the id that a call has in the log, and add it to those `used` there.

    It is the model's, `theirs`, unless that is empty or stands in the log already.
    """
    own = theirs if theirs and theirs not in used else ctx.new_id("call")
    used.add(own)
    return own
