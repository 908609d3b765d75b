"""What an agent gets: the message, whose it is, and ways to speak."""

import asyncio
import logging
from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from headrace.model import events, parts
from headrace.model.entry import Entry
from headrace.model.errors import FileUnknown
from headrace.model.events import ACCEPTED_MODES, AGUI, EXTENSIONS, Json
from headrace.model.task import TaskKey
from headrace_worker.delegation.asking import Asking, Waiting
from headrace_worker.delegation.children import Children
from headrace_worker.delegation.parent import Parent
from headrace_worker.emitter import Emitter
from headrace_worker.inbox import Inbox
from headrace_worker.inputs import Inputs
from headrace_worker.interrupt import STOPS, Interrupt
from headrace_worker.offload import Offload
from headrace_worker.shared_state import SharedState
from headrace_worker.speech import Speech


@dataclass(frozen=True)
class RunContext(Speech, Asking):
    """One attempt of one leg, as its agent sees it.

    An agent that is a generator yields what it says; any agent can `emit` it, or use the methods
    named for what they say. Both wait when the agent is too far ahead of the log.
    """

    key: TaskKey
    context: str
    """The conversation: A2A's contextId, AG-UI's threadId."""
    owner: str
    """Whose task it is, as a subject token."""
    leg: int
    """Generation of the input that this leg answers."""
    attempt: int
    """The how-manieth try at this leg, from 1."""
    message: Json
    """The input: an A2A v1.0 Message in ProtoJSON."""
    metadata: Json
    """What came with the input beside its message: an AG-UI run's state and tools, say."""
    voice: Emitter
    """What `emit` and the methods below it speak with."""
    inputs: Inputs
    """The messages that come meanwhile."""
    recall: Callable[[], Awaitable[Json]]
    """``await ctx.recall()``: the task as it was when this attempt began, an A2A v1.0 Task with
    its history and artifacts. Read from the log: ask once."""

    retell: Callable[[], Awaitable[list[tuple[int, Json]]]]
    """As `recall`, but event by event: each of the log's StreamResponses with its generation."""

    entries: Callable[[], Awaitable[list[Entry]]] | None = None
    """As `retell`, but entry by entry."""
    earlier: Callable[[], Awaitable[list[Json]]] | None = None
    """What `context_history` asks."""
    earlier_logs: Callable[[str | None], Awaitable[list[list[Entry]]]] | None = None
    """The logs of the conversation's other tasks that the agent named, or a user, has asked."""
    stowing: Offload | None = None
    """Where large files go."""
    deadline: datetime | None = None
    """When the leg is stopped, in UTC; None: it may take as long as it likes."""
    checkpoint_data: Any = None
    """What a former attempt has saved with `checkpoint`; None: nothing."""
    traceparent: str | None = None
    """W3C trace context of the request, if it had one."""
    interrupt: Callable[[], Interrupt] = lambda: Interrupt.NONE
    """Asks why the agent is being stopped."""
    shared_state: SharedState = field(default_factory=SharedState)
    """What `state` reads."""
    parent: Parent | None = None
    children: Children | None = None
    waiting_child: Waiting | None = None
    """What others are asked with."""

    @property
    def task(self) -> str:
        """The task's id."""
        return self.key.task

    @property
    def tenant(self) -> str:
        """Whose fleet it runs in, as a subject token."""
        return self.key.tenant

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.key.agent

    @property
    def accepted_output_modes(self) -> Sequence[str]:
        """The media types that an A2A client wants its answer in; empty: it does not say."""
        accepted: Sequence[str] = self.metadata.get(ACCEPTED_MODES) or ()
        return accepted

    @property
    def extensions(self) -> Sequence[str]:
        """The agent's own A2A extensions that the request activated, by URI."""
        activated: Sequence[str] = self.metadata.get(EXTENSIONS) or ()
        return activated

    @property
    def agui(self) -> Json:
        """What an AG-UI client sent with the run, as it sent it; empty for other clients.

        Its keys are ``state``, ``tools``, ``context``, ``forwardedProps`` and more.
        """
        sent: Json = self.metadata.get(AGUI) or {}
        return sent

    @property
    def is_stopped(self) -> bool:
        """Whether the leg is to end here: canceled, out of time, or given way to a newer message.

        For an agent's clean-up, which then ends what was begun elsewhere for the leg. False while
        nothing stops it, and where it is stopped because another worker goes on.
        """
        return self.interrupt() in STOPS

    @property
    def state(self) -> Any:  # noqa: ANN401  # any JSON
        """The state shared with the user interface, as it is now: a copy, change it by saying so.

        It begins as the AG-UI client sent it with the run; other clients' is an empty object.
        """
        return self.shared_state.now

    async def history(self) -> Sequence[Json]:
        """Return the task's messages up to this input's, A2A v1.0 Messages. Read from the log.

        Raises:
            LogLost, BusUnavailable: the log is gone, or does not answer.
        """
        task = await self.recall()
        messages: Sequence[Json] = task.get("history", [])
        return messages

    async def context_history(self) -> Sequence[Json]:
        """Return the conversation's other tasks, A2A v1.0 Tasks, least recently changed first.

        Raises:
            StateUnavailable: task state does not answer.
        """
        return await self.earlier() if self.earlier is not None else []

    @property
    def inbox(self) -> Inbox:
        """For an agent that is steered, the messages that come meanwhile."""
        return Inbox(self.inputs)

    @property
    def parts(self) -> Sequence[Json]:
        """The message's parts."""
        found: Sequence[Json] = self.message.get("parts", ())
        return found

    async def content(self, part: Json) -> bytes:
        """Return the content of a file that the message, or another part of the task, holds.

        Raises:
            FileUnknown: the part holds none; or it is gone, is another conversation's, or lies
                elsewhere: fetch that yourself.
            BusUnavailable: the store does not answer.
        """
        if (raw := part.get("raw")) is not None:
            return b64decode(raw)
        if self.stowing is None:
            raise FileUnknown("there is no store of files here")
        mine = self.stowing.belongs_to
        return await self.stowing.files.read(part.get("url", ""), self.tenant, mine)

    @property
    def prompt(self) -> str:
        """The message's text, its parts put together."""
        return parts.text_of(self.parts)

    @cached_property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger that names the task in each line."""
        return _TaskLog(logging.getLogger(f"headrace.agent.{self.agent}"), {"task": self.task})

    async def checkpoint(self, data: Any) -> None:  # noqa: ANN401  # any JSON
        """Save up to 8 KB of JSON with all that was said before; returns when it is stored.

        Should this attempt die, the next finds it as `checkpoint_data`: what was said before
        stands, what was said after is discarded. Every open block ends here.

        Raises:
            MalformedOutput: it is no JSON, or is too large.
            LegOver: the leg has ended.
        """
        await self.voice.checkpoint(data)

    async def auth_required(
        self, prompt: str, schema: Json | None = None, patience: float = 300.0
    ) -> Json:
        """Ask the user for credentials and return the message that answers, an A2A v1.0 Message.

        The task is AUTH_REQUIRED meanwhile, its streams stay open and this worker keeps it. Another
        attempt that asks the same finds the answer at hand.

        Raises:
            TimeoutError: no answer came within `patience` seconds.
            LegOver: the leg has ended.
        """
        said: Json = {
            "messageId": self.voice.mint("message"),
            "role": "ROLE_AGENT",
            "parts": [{"text": prompt}],
        }
        if schema is not None:
            said["metadata"] = {events.INPUT_SCHEMA: schema}
        async with asyncio.timeout(patience):
            return await self.inputs.ask(said)


class _TaskLog(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:  # noqa: ANN401  # logging's signature
        return f"task {(self.extra or {}).get('task')}: {msg}", kwargs
