"""The id of a conversation at an outside agent.

A context id belongs to an owner: another owner's task may have the same one. Outside agents know
neither tenants nor owners, and could use one owner's conversation to answer another. So they get an
id derived from tenant, owner, agent and context, which all tasks of the conversation share.
"""

from uuid import UUID, uuid5

from headrace.model import json_text
from headrace.sdk.context import RunContext

_NAMESPACE = UUID("d2f0c8a3-6f0e-5d57-9b1c-0f5a8e3b7c41")


def outside_context(ctx: RunContext, requested_by: str | None) -> str:
    """Return the conversation's id for an outside agent: A2A's contextId, AG-UI's threadId.

    It is derived from tenant, owner, agent and context. Requests from another agent,
    `requested_by`, are a separate conversation.
    """
    names = [ctx.tenant, ctx.owner, ctx.agent, ctx.context, requested_by]
    return str(uuid5(_NAMESPACE, json_text.encode(names).decode()))
