"""The name under which an agent elsewhere knows a conversation.

A context id belongs to an owner: another owner's task may have the same one. Agents elsewhere know
neither tenants nor owners, and would answer one with what another has told them. So they get an id
that is derived from whose conversation it is: the same for every task of it, and another one for
everybody else.
"""

from uuid import UUID, uuid5

import orjson

from headrace.sdk.context import RunContext

_NAMESPACE = UUID("d2f0c8a3-6f0e-5d57-9b1c-0f5a8e3b7c41")


def outside_context(ctx: RunContext, asked_by: str | None) -> str:
    """Return the conversation's id elsewhere: A2A's contextId, AG-UI's threadId.

    It stands for tenant, owner, agent and context; what another agent has asked, `asked_by`, is a
    conversation of its own.
    """
    names = [ctx.tenant, ctx.owner, ctx.agent, ctx.context, asked_by]
    return str(uuid5(_NAMESPACE, orjson.dumps(names).decode()))
