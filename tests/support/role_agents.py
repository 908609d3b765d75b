"""Agents of two worker groups that delegate to each other but can't access others' tasks."""

from base64 import b64encode
from collections.abc import AsyncIterator

from headrace import Agents, InputRequired, RunContext, agent
from headrace.demo import counter, echo
from tests.support.agents import asker, filer, flaky

LARGE = 300_000
"""Bytes of a file that no log takes."""


@agent()
async def parent(ctx: RunContext) -> str:
    """Has its message counted, or, if that is `file`, a large file looked at."""
    if ctx.prompt != "file":
        return (await ctx.delegate("counter", ctx.prompt)).text
    raw = b64encode(b"y" * LARGE).decode()
    message = {"messageId": "one", "role": "ROLE_USER", "parts": [{"raw": raw, "filename": "y"}]}
    return (await ctx.delegate("filer", message)).text


@agent(version="2.1", pinned=True)
async def tailor(ctx: RunContext) -> AsyncIterator[str | InputRequired]:
    """Ask for a length, and cut; its tasks stay with this version."""
    if ctx.run == 1:
        yield InputRequired("How long?")
    else:
        yield f"Cut {ctx.prompt}"


parents = Agents([parent, asker, flaky])
children = Agents([counter, echo, filer, tailor])
