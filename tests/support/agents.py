"""Agents that misbehave in ways demo agents should not, for workers that tests start."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator

from headrace import (
    Agents,
    Card,
    Emission,
    File,
    InputRequired,
    Retry,
    Retryable,
    RunContext,
    ToolArguments,
    ToolCall,
    ToolResult,
    agent,
)
from headrace.model import parts
from tests.support.documented import caller, patcher
from tests.support.everything import everything
from tests.support.gates import opened
from tests.support.noisy_png import noisy_png

LONG_NAP = 9.0
"""Seconds: far beyond what a lost lease takes to show."""


@agent()
async def sleeper(_: RunContext) -> AsyncIterator[str]:
    """Sleeps without awaiting, so that nothing else runs in its process' loop."""
    yield "before "
    time.sleep(LONG_NAP)  # noqa: ASYNC251  # what this agent is for
    yield "after"


@agent(card=Card(extended={"description": "Knows who asks."}))
async def asker(run: RunContext) -> AsyncIterator[str | InputRequired]:
    """Asks for a name, and greets who gives it."""
    if run.run == 1:
        yield InputRequired("Who are you?")
    else:
        yield f"Hello, {run.prompt}!"


@agent()
async def chooser(run: RunContext) -> AsyncIterator[str | InputRequired]:
    """Asks two questions at once, and repeats the answers."""
    if run.run > 1:
        yield " and ".join(str(part.get("data", part.get("text"))) for part in run.parts)
        return
    requests = [
        {"id": one, "reason": "input", "message": f"Which {one}?"} for one in ("size", "tea")
    ]
    yield InputRequired("Please choose.", None, requests)


@agent()
async def typist(_: RunContext) -> AsyncIterator[str]:
    """Says ten numbers."""
    for number in range(1, 11):
        yield f"{number} "


@agent(card=Card(input_modes=["*/*"]))
async def filer(run: RunContext) -> AsyncIterator[str | File]:
    """Makes a file of as many bytes as it is told, or says what one holds: sent, or by its link.

    Asked for a picture, it makes one that is too large for the log.
    """
    if run.prompt == "picture":
        yield File("picture.png", noisy_png(256, 256), "image/png")
        return
    if run.prompt.isdecimal():
        yield File('made "up"', b"x" * int(run.prompt), "application/x-made")
    elif run.prompt:
        yield hashlib.sha256(await run.content({"url": run.prompt})).hexdigest()
    else:
        yield hashlib.sha256(await run.content(run.parts[0])).hexdigest()


@agent(retry=Retry(attempts=1))
async def flaky(run: RunContext) -> str:
    """Fails, unless the task is a retry of another one."""
    if not run.message.get("referenceTaskIds"):
        raise Retryable("temporarily unavailable")
    return f"Retried: {run.prompt}"


@agent()
async def gated(run: RunContext) -> AsyncIterator[str]:
    """Says a word, and another one when the file that its message names is there."""
    yield "before "
    await opened(run.prompt)
    yield "after"


@agent()
async def delegator(run: RunContext) -> str:
    """Asks an echo, and somebody who waits for the file that its message names."""
    request = (run.delegate("echo", "hello"), run.delegate("gated", run.prompt))
    return " ".join([result.text for result in await asyncio.gather(*request)])


_CALL = "call_1"
"""What models call their first call in each turn."""


@agent()
async def painter(run: RunContext) -> AsyncIterator[Emission]:
    """Has its client paint, and says what came of it."""
    if run.run > 1:
        [result] = filter(None, map(parts.tool_result, run.parts))
        yield f"Painted: {result.content}{result.error}."
        return
    yield ToolArguments(_CALL, '{"colour": ', "paint")
    yield ToolArguments(_CALL, f'"{run.prompt}"}}', end=True)
    yield InputRequired(tool_calls=[_CALL])


@agent()
async def cashier(run: RunContext) -> AsyncIterator[Emission]:
    """Pays what it is told to, if that is approved."""
    if run.run > 1:
        approved = run.parts[0]["data"]["approved"]
        yield ToolResult(_CALL, {"paid": approved})
        yield "Paid." if approved else "Not paid."
        return
    yield ToolCall("pay", {"amount": run.prompt}, _CALL)
    question = {"id": _CALL, "reason": "tool_call", "toolCallId": _CALL, "message": "Pay?"}
    yield InputRequired("Pay?", None, [question])


@agent()
async def buyer(run: RunContext) -> AsyncIterator[str]:
    """Buys something in two steps, the second of which ends when the file that is named is there.

    It remembers how often it did.
    """
    await run.step("reserve", lambda: 1)
    yield "reserved "
    await run.step("charge", opened, run.prompt)
    await run.memory.update("bought", lambda n: n + 1, 0)
    yield "paid"


@agent()
async def seeker(run: RunContext) -> AsyncIterator[Emission]:
    """Calls a tool as often as it is told; every hundredth call fails."""
    for number in range(1, int(run.prompt) + 1):
        call = f"{_CALL}_{number}"
        yield ToolCall("search", {"page": number}, call)
        yield ToolResult(call, error="" if number % 100 else "busy")
    yield "Found."


agents = Agents(
    [
        *(sleeper, asker, chooser, filer, flaky, gated, delegator),
        *(everything, patcher, caller, painter, cashier, buyer, seeker),
    ]
)
"""What the extra workers of the shared stack serve."""

typists = Agents([typist])
