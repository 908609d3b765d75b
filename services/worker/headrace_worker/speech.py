"""Ways to speak that are named for what they say; each is `emit` of what stands in `emission`."""

from collections.abc import Sequence
from typing import Any

from headrace.model.events import Json
from headrace_worker.calling import Callee, ToolError
from headrace_worker.emission import (
    Data,
    Emission,
    File,
    Status,
    Text,
    Thinking,
    ToolArguments,
    ToolCall,
    ToolResult,
)
from headrace_worker.emitter import Emitter
from headrace_worker.offload import BULKY, Offload
from headrace_worker.signals import (
    Activity,
    ActivityDelta,
    Custom,
    Messages,
    Raw,
    State,
    StateDelta,
    Step,
    Subagent,
    Usage,
)


class Speech:
    """What an agent can say as it goes, each in a method; all wait where the log lags behind.

    Whatever is malformed raises `MalformedOutput`; after the leg's end, `LegOver`.
    """

    voice: Emitter
    stowing: Offload | None

    async def stowed(self, said: Emission) -> Emission:
        """Return `said` with its large files in the store, and links to them in their place.

        Raises:
            MalformedOutput: a field is not of its type's shape.
            LogFull: the store is at its limit.
        """
        return said if self.stowing is None else await self.stowing.stowed(said)

    async def emit(self, said: Emission) -> None:
        """Say anything that an agent can say.

        Raises:
            MalformedOutput: it can't stand in a log, or not at this point.
            LegOver: the leg has ended.
        """
        if type(said) in BULKY:
            said = await self.stowed(said)
        if not self.voice.say(said):
            await self.voice.room()

    async def text(self, text: str, block: str = "", *, end: bool = False) -> None:
        """Say a piece of the answer (see `Text`)."""
        await self.emit(Text(text, block, end) if block or end else text)

    async def think(
        self, text: str, block: str = "", *, end: bool = False, encrypted: str = ""
    ) -> None:
        """Say a piece of the reasoning (see `Thinking`)."""
        await self.emit(Thinking(text, block, end, encrypted=encrypted))

    async def tool_call(self, name: str, arguments: Any, call_id: str = "") -> str:  # noqa: ANN401  # any JSON
        """Say that a tool is called, and return the call's id."""
        call_id = call_id or self.voice.mint("call")
        await self.emit(ToolCall(name, arguments, call_id))
        return call_id

    async def tool_arguments(
        self, call_id: str, delta: str, name: str = "", *, end: bool = False
    ) -> None:
        """Say a piece of a call's arguments (see `ToolArguments`)."""
        await self.emit(ToolArguments(call_id, delta, name, end))

    async def tool_result(self, call_id: str, content: Any, error: str = "") -> None:  # noqa: ANN401  # any JSON
        """Say what a tool answered."""
        await self.emit(ToolResult(call_id, content, error))

    async def call(self, tool: Callee, /, **arguments: Any) -> Any:  # noqa: ANN401  # any JSON
        """Call a tool (see `tool`), saying so, and return what it answers.

        Raises:
            ToolError: it could not, which the log says too.
        """
        call_id = await self.tool_call(tool.name, arguments)
        answer = await tool.answer(self, arguments)
        await self.tool_result(call_id, answer.content, answer.error)
        if answer.error:
            raise ToolError(answer.error)
        return answer.content

    async def file(self, name: str, content: bytes, media_type: str = "") -> None:
        """Say that a file is part of the result."""
        await self.emit(File(name, content, media_type))

    async def data(self, data: Any, name: str = "") -> None:  # noqa: ANN401  # any JSON
        """Say that structured data is part of the result."""
        await self.emit(Data(data, name))

    async def status(self, text: str) -> None:
        """Say how the work goes."""
        await self.emit(Status(text))

    async def set_state(self, state: Any) -> None:  # noqa: ANN401  # any JSON
        """Say what the shared state is, as a whole."""
        await self.emit(State(state))

    async def change_state(self, patch: Sequence[Json]) -> None:
        """Say how the shared state changes, all of the patch or nothing (see `StateDelta`)."""
        await self.emit(StateDelta(patch))

    async def messages(self, messages: Sequence[Json]) -> None:
        """Say what the conversation is, as a whole (see `Messages`)."""
        await self.emit(Messages(messages))

    async def activity(self, kind: str, content: Json, activity_id: str = "") -> str:
        """Show structured content, and return the activity's id (see `Activity`)."""
        activity_id = activity_id or self.voice.mint("activity")
        await self.emit(Activity(kind, content, activity_id))
        return activity_id

    async def change_activity(self, activity_id: str, patch: Sequence[Json]) -> None:
        """Change what an activity shows (see `ActivityDelta`)."""
        await self.emit(ActivityDelta(activity_id, patch))

    async def step(self, name: str, *, finished: bool = False) -> None:
        """Say that a step begins, or ends."""
        await self.emit(Step(name, finished))

    async def subagent(self, subagent: Subagent) -> None:
        """Say that another agent of the same process goes on with the task, or ends."""
        await self.emit(subagent)

    async def usage(self, usage: Usage) -> None:
        """Say what a model has used."""
        await self.emit(usage)

    async def custom(self, name: str, value: Any = None) -> None:  # noqa: ANN401  # any JSON
        """Say an event of the agent's own making."""
        await self.emit(Custom(name, value))

    async def raw(self, event: Any, source: str = "") -> None:  # noqa: ANN401  # any JSON
        """Hand on an event of another system."""
        await self.emit(Raw(event, source))
