"""Memory of a run's conversation: loaded for its model, and saved for later attempts and runs."""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headrace.adapters.conversation.of_client import turns_of_agui
from headrace.adapters.conversation.of_log import set_messages, state_of_logs, turns_of_log
from headrace.adapters.conversation.turns import (
    RESPONSE,
    RESULT,
    Turn,
    Verbatim,
    user_turn,
    with_question,
)
from headrace.model import json_text
from headrace.model.delegation import asking_agent
from headrace.model.entry import Entry
from headrace.model.errors import FileUnknown, StateUnavailable
from headrace.model.events import AGUI, Json
from headrace.model.file_links import SCHEME
from headrace.model.fork import ForkOf
from headrace.sdk.context import RunContext, runtime_of
from headrace.sdk.emit import ToolArguments, ToolResult
from headrace.sdk.errors import Misdeclared, Retryable
from headrace.sdk.source import called_at

_CHOICES = ("context", "task", "none")

type Memory = Literal["context", "task", "none"]
"""What a model remembers: the whole conversation, the task, or only the message, with the question
that it answers. An AG-UI client sends the conversation with each run; then that one is used.
"""


def check_memory(memory: object, agent: str) -> None:
    """Check an adapter's option ``memory``.

    Raises:
        Misdeclared: It is none of its choices.
    """
    if memory not in _CHOICES:
        choices = ", ".join(map(repr, _CHOICES))
        raise Misdeclared(f"the memory of agent {agent!r} must be one of {choices}{called_at()}")


_INLINE = 4 * 1024
"""Maximum bytes of a verbatim response in a checkpoint; a larger one goes to the object store."""


@dataclass(frozen=True, slots=True)
class RememberedConversation:
    """The remembered conversation."""

    turns: list[Turn]
    requested_by: str | None
    """The agent whose conversation this is, or None for a user's."""
    logs: list[list[Entry]]
    """Sources of the turns: earlier tasks' logs, then the task's own."""
    log: list[Entry]
    """The task's own log, for any memory; empty in the first attempt at a task's first run."""

    def state(self) -> Any:  # noqa: ANN401  # any JSON
        """Return the state that the agent shares with its user interface, after all logs."""
        return state_of_logs(self.logs)


async def conversation(
    ctx: RunContext, memory: Memory = "context", verbatim: str = ""
) -> list[Turn]:
    """Return the turns of `remembered`.

    Raises:
        Retryable, LogLost, BusUnavailable: as for `remembered`.
    """
    return (await remembered(ctx, memory, verbatim)).turns


async def remembered(
    ctx: RunContext, memory: Memory = "context", verbatim: str = ""
) -> RememberedConversation:
    """Return the turns so far, including this run's input and the saved output of earlier attempts.

    Tool calls without a result stay open (see `answered`). The user's files are included by value
    if this fleet stores them. Only verbatim responses in the format `verbatim` are included.

    Raises:
        Retryable: the conversation can't be read now.
        LogLost, BusUnavailable: the log is gone, or does not answer.
    """
    log, earlier = list[Entry](), list[list[Entry]]()
    if ctx.run > 1 or ctx.attempt > 1:
        log = await runtime_of(ctx).past.entries()
    own = turns_of_log(log, ctx.task) if log else user_turn(ctx.message, ctx.task, ctx.run)
    requested_by = asking_agent(log[0].events[0]["task"] if log else {"metadata": ctx.metadata})
    sent: Json = ctx.metadata.get(AGUI) or {}
    messages = sent.get("messages") or []
    if memory == "none":
        turns = with_question(own, ctx.run)
    elif messages and not sent.get("resume"):
        since = [turn for turn in own if turn.run == ctx.run][len(user_turn(ctx.message)) :]
        known, replaced = list[Turn](), set[str]()
        if any(message.get("role") == "assistant" for message in messages):
            earlier = await _earlier(ctx, memory, log)
            known = [*await turns_of_logs(earlier), *(turn for turn in own if turn.run != ctx.run)]
            replaced = {message["id"] for message in set_messages([*earlier, log])}
        turns = [*turns_of_agui(messages, ctx.parts, known, replaced), *since]
    else:
        earlier = await _earlier(ctx, memory, log)
        turns = [*await turns_of_logs(earlier), *own]
    for turn in turns:
        turn.parts = await with_content(ctx, turn.parts)
        turn.verbatim = await _loaded(ctx, turn.verbatim, verbatim)
    return RememberedConversation(
        turns, requested_by, [] if memory == "none" else [*earlier, log], log
    )


async def logs_before(ctx: RunContext, log: Sequence[Entry] = ()) -> list[list[Entry]]:
    """Return the logs of the conversation's earlier tasks, up to their last ended runs.

    `log` is the task's own log; a first run does not need it.

    Raises:
        Retryable: the logs can't be read now.
        BusUnavailable: a log does not answer.
    """
    task = log[0].events[0]["task"] if log else {"metadata": ctx.metadata}
    try:
        past = runtime_of(ctx).past
        return await past.context_logs(asking_agent(task), ForkOf.of(task.get("metadata")))
    except StateUnavailable as error:
        raise Retryable("the conversation can't be read now") from error


async def turns_of_logs(logs: Sequence[Sequence[Entry]]) -> list[Turn]:
    """Return the turns of several tasks, one task after the other."""
    turns = list[Turn]()
    for each in logs:
        turns += turns_of_log(each)
        # Long logs take a while: yield to other tasks between them.
        await asyncio.sleep(0)
    return turns


async def with_content(ctx: RunContext, parts: Sequence[Json]) -> Sequence[Json]:
    """Return A2A Parts with links to this fleet's files replaced by the files' content.

    A file that no longer exists is replaced by a text.

    Raises:
        BusUnavailable: the store does not answer.
    """
    if not any(str(part.get("url", "")).startswith(SCHEME) for part in parts):
        return parts
    return [await _with_content(ctx, part) for part in parts]


async def keep_response(
    ctx: RunContext, verbatim: Verbatim | None = None, last: ToolArguments | None = None
) -> None:
    """Save that the model's response is complete, so that later attempts do not request it again.

    `last` is emitted with it: the end of its last tool call. All open blocks end here.

    Raises:
        MalformedOutput, RunOver: as for `RunContext.checkpoint`.
    """
    kept = {} if verbatim is None else await _kept(ctx, verbatim)
    await runtime_of(ctx).output.checkpoint({RESPONSE: kept}, last)


async def keep_result(
    ctx: RunContext, result: ToolResult, verbatim: Verbatim | None = None
) -> None:
    """Emit a tool's result and save it, so that later attempts do not call the tool again.

    `verbatim` is the result for the model, if the log's result contains less.

    Raises:
        MalformedOutput, RunOver: as for `RunContext.checkpoint`.
    """
    kept = None if verbatim is None else {RESULT: await _kept(ctx, verbatim)}
    await runtime_of(ctx).output.checkpoint(kept, result)


async def _kept(ctx: RunContext, verbatim: Verbatim) -> Json:
    return {"format": verbatim.format, **await stored(ctx, verbatim.response)}


async def _earlier(ctx: RunContext, memory: Memory, log: Sequence[Entry]) -> list[list[Entry]]:
    """Return the logs of the conversation's earlier tasks that `memory` includes."""
    return await logs_before(ctx, log) if memory == "context" else []


async def _with_content(ctx: RunContext, part: Json) -> Json:
    if not str(part.get("url", "")).startswith(SCHEME):
        return part
    rest = {key: value for key, value in part.items() if key != "url"}
    try:
        return {"raw": b64encode(await ctx.content(part)).decode(), **rest}
    except FileUnknown:
        name = part.get("filename") or part.get("mediaType") or "file"
        return {"text": f"[{name}: the file is no longer stored]"}


async def stored(ctx: RunContext, response: Any) -> Json:  # noqa: ANN401  # any JSON
    """Return what to save in a checkpoint for possibly large JSON; see `restored`."""
    encoded = json_text.encode(response)
    if len(encoded) <= _INLINE:
        return {"response": response}
    link = await runtime_of(ctx).files.store(encoded, "application/json")
    return {"response": response} if link is None else {"link": link}


async def restored(ctx: RunContext, kept: Json) -> Any:  # noqa: ANN401  # any JSON
    """Return the JSON passed to `stored`.

    Raises:
        FileUnknown: it no longer exists.
        BusUnavailable: the store does not answer.
    """
    if "response" in kept:
        return kept["response"]
    return json_text.decode(await ctx.content({"url": kept["link"]}))


async def _loaded(ctx: RunContext, kept: Verbatim | None, form: str) -> Verbatim | None:
    if kept is None or kept.format != form:
        return None
    if not kept.link:
        return kept
    try:
        content = await ctx.content({"url": kept.link})
    except FileUnknown:
        return None
    return Verbatim(form, json_text.decode(content))
