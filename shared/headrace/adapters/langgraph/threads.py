"""The thread in which a graph keeps a task's state.

A task's thread starts with a copy of the state of the conversation's last completed task. So the
tasks of one conversation branch: none waits for another, and none reads or changes another's
thread. Messages of other tasks that the copy does not contain are added before the input.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.types import INTERRUPT, RESUME
from langgraph.errors import InvalidUpdateError
from langgraph.pregel import Pregel
from langgraph.types import Interrupt, StateSnapshot

from headrace.adapters.conversation.memory import Memory, conversation, logs_before, turns_of_logs
from headrace.adapters.conversation.turns import Turn
from headrace.adapters.langgraph.inner_interrupts import answered_inside
from headrace.adapters.langgraph.interrupts import breakpoint_question, is_breakpoint
from headrace.adapters.langgraph.memory import (
    CHANGED_GRAPH,
    NO_CHECKPOINTER,
    missing_state,
)
from headrace.adapters.questions.answers import AnswerInvalid, MemoryLost, interrupts_in
from headrace.adapters.questions.approvals import interrupts_before
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace.model.fork import ForkOf
from headrace.model.memory import MemoryFull
from headrace.model.task import COMPLETED, TERMINAL
from headrace.sdk.checkpoint import decode
from headrace.sdk.context import RunContext, runtime_of

_KEY = "langgraph"
"""Key of a `Position` in a run's checkpoint."""
_AHEAD = 8
"""Maximum number of checkpoints that a graph can be ahead of the log, with a margin."""
_MOST = 100
"""Maximum number of tasks in `Position.extra`; a checkpoint has no room for more."""


@dataclass(slots=True)
class Position:
    """A run's position in its thread, as the log has it."""

    base: str | None = None
    """The checkpoint at which the run started; None if the thread was empty."""
    at: str | None = None
    """The checkpoint up to which the log is complete."""
    after: str | None = None
    """The task whose state the thread started with."""
    extra: list[str] = field(default_factory=list)
    """The tasks whose messages were added before the input."""
    resumes: bool = False
    """Whether the run's message answers interrupts that were open in the thread."""


@dataclass(slots=True)
class RunStart:
    """Where a run starts."""

    goes_on: bool = False
    """Whether an earlier attempt has already passed the input to the graph."""
    earlier: list[Turn] = field(default_factory=list)
    """Turns to add before the input."""
    values: Any = None
    """The graph's state."""
    missed: list[tuple[str, Any]] = field(default_factory=list)
    """Updates of nodes that the log does not have, by node."""
    is_over: bool = False
    """Whether the graph is finished, and only its result is left to emit."""
    asked: list[str] = field(default_factory=list)
    """The ids of all interrupts that were sent, with those that have used their answers since."""
    interrupts: list[Json] = field(default_factory=list)
    """The open interrupts that the input answers, as they were sent."""
    waiting: list[Interrupt] = field(default_factory=list)
    """The graph's interrupts for `interrupts`; empty for a static breakpoint."""
    stops: bool = False
    """Whether an earlier attempt has stopped at a static breakpoint."""


type Write = tuple[str, str, Any]
"""A pending write of a checkpoint: task, channel and value."""


@dataclass(frozen=True, slots=True)
class Question:
    """Where a graph has asked its user.

    LangGraph notes the answers, and what follows from them, at the checkpoint at which it asked. So
    a later look at it shows more than was known then.
    """

    checkpoint: str | None
    interrupts: list[Json]
    """The interrupts that were open."""
    answers: int
    """How many answers the graph had used at the checkpoint before."""

    def writes(self, by_space: Mapping[str, Sequence[Write]]) -> dict[str, list[Write]]:
        """Return the pending writes of the checkpoints as they were then, by namespace.

        Raises:
            LookupError: It can't be told.
        """
        interrupts = [w for writes in by_space.values() for w in writes if w[1] == INTERRUPT]
        names = {each["id"] for each in self.interrupts}
        is_alone = len(interrupts) == len(self.interrupts) == 1
        kept: dict[str, list[Write]] = {}
        for space, writes in by_space.items():
            kept[space] = []
            for task, channel, value in writes:
                if channel == RESUME and self.answers:
                    kept[space].append((task, channel, value[: self.answers]))
                elif channel == INTERRUPT and {one.id for one in value} <= names:
                    kept[space].append((task, channel, value))
                elif channel == INTERRUPT and is_alone:
                    [interrupt] = self.interrupts
                    then = Interrupt(value=interrupt.get("message"), id=interrupt["id"])
                    kept[space].append((task, channel, [then]))
                elif channel == INTERRUPT:
                    raise LookupError(task)
        return kept


class Thread:
    """The thread of one task."""

    def __init__(
        self, ctx: RunContext, graph: Pregel[Any, Any, Any, Any], settings: Mapping[str, Any]
    ) -> None:
        """Keep the state of `graph` for the task of `ctx`; `settings` is its configuration."""
        self._ctx, self._graph = ctx, graph
        self._position, self._name = Position(), thread_of(ctx, ctx.task)
        self.settings: Any = _at(settings, self._name)

    async def begin(self, memory: Memory) -> RunStart:
        """Find where the run starts or resumes, and save it.

        Raises:
            MemoryLost: The run answers a question, and the thread does not have the state in which
                the graph asked it, or the fleet's memory has no room for what follows.
            MemoryFull: The fleet's memory is full, and no question is open.
            Retryable: The conversation can't be read now.
            BusUnavailable: The bus does not answer.
            RunOver: The run has ended.
        """
        try:
            return await self._begin(memory)
        except MemoryFull as full:
            # Without a position, no attempt has passed the answer to the graph.
            is_unused = self._ctx.run > 1 and position_of(self._ctx.checkpoint_data) is None
            if is_unused and await interrupts_before(self._ctx):
                raise MemoryLost(str(full)) from full
            raise

    async def _begin(self, memory: Memory) -> RunStart:
        ctx, saved, start = self._ctx, position_of(self._ctx.checkpoint_data), RunStart()
        if ctx.run > 1 or saved is not None:
            await self._fork()
        state = await self._state()
        if saved is not None and not await self._has(saved.at, state):
            # An earlier attempt got there in another process, which had the checkpoints.
            saved = None
        if ctx.run > 1 and (saved is None or _id(state) == saved.base):
            await self._find_question(state, start, saved)
        if saved is None:
            carries = self._carry_over if ctx.run == 1 else self._turns_before
            start.earlier = await carries(memory)
            state = await self._state()
            self._position.base = self._position.at = _id(state)
            self._position.resumes = bool(start.waiting)
            await self._save()
        else:
            self._position = saved
            start.goes_on |= _id(state) != saved.base
        if start.goes_on:
            start.stops = await self._stops(state)
            # `next` leaves out nodes that have ended while their step has no checkpoint yet.
            start.is_over = start.stops or not state.tasks
            start.missed = await self._missed()
        elif saved is not None and ctx.run == 1:
            start.earlier = await self._noted(memory, saved)
        start.values = state.values
        return start

    async def _find_question(
        self, state: StateSnapshot, start: RunStart, saved: Position | None
    ) -> None:
        """Note the open interrupts that the input answers, or that the graph has used the answer.

        LangGraph stores answers, and what the nodes that got them do, at the checkpoint at which
        the graph asked, until all nodes of that step have ended.

        Raises:
            MemoryLost: The graph can't be resumed from `state` with the answer.
        """
        interrupts = {each["id"]: each for each in await interrupts_before(self._ctx)}
        start.asked = [*interrupts]
        used = set[str]()
        if saved is not None and saved.resumes:
            used = await answered_inside(self._saver, self._name)
        start.waiting = [each for each in state.interrupts if each.id in interrupts.keys() - used]
        start.interrupts = [interrupts[each.id] for each in start.waiting]
        stop = [each for each in interrupts.values() if is_breakpoint(each, _id(state))]
        start.interrupts += stop[:1]
        if not interrupts or start.interrupts:
            return
        if saved is not None and saved.resumes:
            if not state.tasks:
                raise MemoryLost(CHANGED_GRAPH)
            start.goes_on = True
            return
        place = _last_position(await self._log_before()).at
        if not await self._has(place, state):
            raise MemoryLost(missing_state(self._saver))
        if await self._is_question(place, interrupts.keys()):
            raise MemoryLost(CHANGED_GRAPH)

    async def _is_question(self, checkpoint: str | None, names: Collection[str]) -> bool:
        """Return whether the graph asked one of the interrupts `names` at a checkpoint.

        A node can also ask on its own, with an `InputRequired`; the answer is a message then.
        """
        found = await self._saver.aget_tuple(_at(self.settings, self._name, checkpoint))
        writes: Any = (found.pending_writes if found is not None else None) or ()
        return any(
            one.id in names for _, channel, value in writes if channel == INTERRUPT for one in value
        )

    async def _has(self, checkpoint: str | None, state: StateSnapshot) -> bool:
        """Return whether the thread, whose last state is `state`, has a checkpoint."""
        if checkpoint is None or _id(state) in {None, checkpoint}:
            return checkpoint is None or _id(state) == checkpoint
        place = _at(self.settings, self._name, checkpoint)
        return await self._saver.aget_tuple(place) is not None

    async def _log_before(self) -> list[Entry]:
        """Return the task's log up to this run's input."""
        log = await runtime_of(self._ctx).past.entries()
        return [entry for entry in log if entry.stamp.run < self._ctx.run]

    async def _turns_before(self, memory: Memory) -> list[Turn]:
        """Return the turns of the task's earlier runs if the thread is empty."""
        if memory == "none" or _id(await self._state()) is not None:
            return []
        return await turns_of_logs([await self._log_before()])

    async def _fork(self) -> None:
        """Give a fork's thread the source's state, if that is what the log's past ends with."""
        if _id(await self._state()) is not None:
            return
        log = await runtime_of(self._ctx).past.entries()
        fork = ForkOf.of(log[0].events[0]["task"].get("metadata"))
        if fork is None:
            return
        past = [entry for entry in log if entry.last_generation <= fork.generation]
        before = [entry for entry in past if entry.stamp.run < self._ctx.run]
        position, interrupts = _last_position(past), await interrupts_before(self._ctx)
        for source in fork.chain():
            # A task that is over continues from its last state, which no checkpoint names.
            question = None
            if source.state not in TERMINAL:
                question = Question(position.at, interrupts, _answers_at(before, position.at))
            if await self._copy(thread_of(self._ctx, source.task, source.context), question):
                return

    async def question(self, ends: str | None) -> Json:
        """Return the interrupt for the static breakpoint at which the graph has stopped."""
        state = await self._state()
        return breakpoint_question(_id(state) or "", state.next, ends)

    async def update(self, values: Json) -> None:
        """Set the state that the user edited at a breakpoint.

        Raises:
            AnswerInvalid: The graph does not accept it.
        """
        try:
            await self._graph.aupdate_state(self.settings, values)
        except (InvalidUpdateError, ValueError, TypeError) as error:
            raise AnswerInvalid(f"editedArgs: {error}") from error

    async def reached(self, checkpoint: Json) -> None:
        """Save that the log is complete up to a checkpoint, as the graph streams it."""
        is_input = checkpoint["metadata"].get("source") == "input"
        if is_input or not checkpoint["next"]:
            # Nothing has been emitted yet, or the run's end follows at once.
            return
        name = checkpoint["config"]["configurable"].get("checkpoint_id")
        if name != self._position.at:
            self._position.at = name
            await self._save()

    async def _carry_over(self, memory: Memory) -> list[Turn]:
        """Start the thread with the conversation's state; return the turns that it lacks."""
        saver, ctx = self._saver, self._ctx
        if _id(await self._state()) is not None:
            # An earlier attempt died before it could save where it started.
            await saver.adelete_thread(self._name)
        if memory != "context":
            return []
        logs = await logs_before(ctx)
        over = {_task(log): log for log in logs if log[-1].stamp.state in TERMINAL}
        by_end = sorted(over.values(), key=lambda log: log[-1].time, reverse=True)
        for log in by_end:
            if log[-1].stamp.state == COMPLETED and await self._copy(_thread(ctx, log)):
                self._position.after = _task(log)
                break
        held = _held_by(self._position.after, over)
        extra = [log for log in over.values() if _task(log) not in held]
        self._position.extra = [_task(log) for log in extra[-_MOST:]]
        if self._position.after is None and not over and ctx.agui.get("messages"):
            return (await conversation(ctx, memory))[:-1]
        return await turns_of_logs(extra)

    async def _noted(self, memory: Memory, saved: Position) -> list[Turn]:
        """Return the turns that an earlier attempt had to add before the input."""
        logs = await logs_before(self._ctx) if saved.extra else []
        if not saved.extra and saved.base is None and self._ctx.agui.get("messages"):
            return (await conversation(self._ctx, memory))[:-1]
        return await turns_of_logs([log for log in logs if _task(log) in saved.extra])

    async def _copy(self, thread: str, question: Question | None = None) -> bool:
        """Copy another thread's state as it was at `question`, or its last one.

        Return whether it has one. Subgraphs have checkpoints of their own.
        """
        checkpoint = None if question is None else question.checkpoint
        left = await self._saver.aget_tuple(_at({}, thread, checkpoint))
        if left is None:
            return False
        found = {"": left}
        async for each in self._saver.alist({"configurable": {"thread_id": thread}}):
            space = each.config["configurable"].get("checkpoint_ns", "")
            # Ids grow with time, and the newest comes first.
            if space not in found and each.checkpoint["id"] <= left.checkpoint["id"]:
                found[space] = each
        writes = {space: list(each.pending_writes or ()) for space, each in found.items()}
        if question is not None:
            try:
                writes = question.writes(writes)
            except LookupError:
                return False
        for space, each in found.items():
            await self._put(space, each, writes[space])
        return True

    async def _put(self, space: str, theirs: CheckpointTuple, writes: Sequence[Write]) -> None:
        about: Any = {**theirs.metadata, "source": "fork"}
        mine = _at({}, self._name)
        mine["configurable"]["checkpoint_ns"] = space
        versions = theirs.checkpoint["channel_versions"]
        kept = await self._saver.aput(mine, theirs.checkpoint, about, versions)
        by_task = dict[str, list[tuple[str, Any]]]()
        for task, channel, value in writes:
            by_task.setdefault(task, []).append((channel, value))
        for task, values in by_task.items():
            await self._saver.aput_writes(kept, values, task)

    async def _missed(self) -> list[tuple[str, Any]]:
        """Return the nodes' updates since the checkpoint up to which the log is complete."""
        steps: list[StateSnapshot] = []
        # The graph waits while its checkpoints are saved here, so there are two or three.
        async for step in self._graph.aget_state_history(self.settings, limit=_AHEAD):
            steps.append(step)
            if _id(step) == self._position.at:
                break
        done = (task for step in reversed(steps[1:]) for task in step.tasks)
        return [(task.name, task.result) for task in done]

    async def _stops(self, state: StateSnapshot) -> bool:
        """Return whether the graph, which has continued since the run started, is at a breakpoint.

        A subgraph with breakpoints is assumed to be at one: an unnecessary question does less harm
        than a missing one.
        """
        if not state.next or state.interrupts:
            return False
        before, after = self._graph.interrupt_before_nodes, self._graph.interrupt_after_nodes
        inner = [
            space.partition("|")[0]
            for space, graph in self._graph.get_subgraphs()
            if isinstance(graph, Pregel)
            and (graph.interrupt_before_nodes or graph.interrupt_after_nodes)
        ]
        if not (before or after or inner):
            return False
        done = set[str]()
        async for step in self._graph.aget_state_history(self.settings, limit=2):
            done = {task.name for task in step.tasks}
        return _has(before, state.next) or _has(after, done) or _has(inner, state.next)

    async def _state(self) -> StateSnapshot:
        return await self._graph.aget_state(self.settings)

    async def _save(self) -> None:
        await self._ctx.checkpoint({_KEY: asdict(self._position)})

    @property
    def _saver(self) -> BaseCheckpointSaver[Any]:
        saver = self._graph.checkpointer
        if not isinstance(saver, BaseCheckpointSaver):
            raise TypeError("the graph has no checkpointer of its own")
        return saver


async def check_unasked(ctx: RunContext) -> None:
    """Check that the run of a graph without a checkpointer answers no question.

    Raises:
        MemoryLost: The graph had a checkpointer when it asked.
    """
    log = [entry for entry in await runtime_of(ctx).past.entries() if entry.stamp.run < ctx.run]
    if _last_position(log).at is not None and await interrupts_before(ctx):
        raise MemoryLost(NO_CHECKPOINTER)


def thread_of(ctx: RunContext, task: str, context: str | None = None) -> str:
    """Return the id of a task's thread, from tenant, owner, agent, context and task.

    `context` is the run's own if it is None.

    Only the context can contain a slash, so ids are unique.
    """
    return f"{ctx.tenant}/{ctx.owner}/{ctx.agent}/{context or ctx.context}/{task}"


def _thread(ctx: RunContext, log: Sequence[Entry]) -> str:
    """Return the id of another task's thread. A fork's earlier tasks have its source's context."""
    context: str = log[0].events[0]["task"]["contextId"]
    return thread_of(ctx, _task(log), context)


def _at(settings: Mapping[str, Any], thread: str, checkpoint: str | None = None) -> Any:  # noqa: ANN401  # a RunnableConfig
    named = {**settings.get("configurable", {}), "thread_id": thread, "checkpoint_ns": ""}
    named.pop("checkpoint_id", None)
    if checkpoint is not None:
        named["checkpoint_id"] = checkpoint
    return {**settings, "configurable": named}


def _id(state: StateSnapshot) -> str | None:
    found: str | None = state.config.get("configurable", {}).get("checkpoint_id")
    return found


def _has(breakpoints: str | Sequence[str], nodes: Collection[str]) -> bool:
    """Return whether one of `nodes` is in `breakpoints`, or `breakpoints` is "*"."""
    return bool(nodes) and (breakpoints == "*" or not set(breakpoints).isdisjoint(nodes))


def position_of(data: Any) -> Position | None:  # noqa: ANN401  # any JSON
    """Return the position in a checkpoint's data; None: it contains none.

    Fields that a later version has added are ignored.
    """
    held = data.get(_KEY) if isinstance(data, dict) else None
    if not isinstance(held, dict):
        return None
    return Position(
        **{each.name: held[each.name] for each in fields(Position) if each.name in held}
    )


def _task(log: Sequence[Entry]) -> str:
    task: str = log[0].events[0]["task"]["id"]
    return task


def _held_by(task: str | None, logs: Mapping[str, Sequence[Entry]]) -> set[str]:
    """Return the tasks whose messages are in the state that `task` left."""
    held, order = set[str](), list(logs)
    while task is not None:
        held.add(task)
        position = _first_position(logs[task])
        held.update(position.extra)
        if position.after is not None and position.after not in logs:
            # Its log is gone: assume that the state has everything before it.
            held.update(order[: order.index(task)])
            return held
        task = position.after if position.after not in held else None
    return held


def _last_position(log: Sequence[Entry]) -> Position:
    for entry in reversed(log):
        if entry.stamp.checkpoint is not None:
            return position_of(decode(entry.stamp.checkpoint).data) or Position()
    return Position()


def _answers_at(log: Sequence[Entry], checkpoint: str | None) -> int:
    """Return how many runs in `log` began at a checkpoint, each with an answer that it used.

    Where an answer is refused, or is none to what was asked, all that was asked is asked again.
    """
    bases = dict[int, str | None]()
    for entry in log:
        if entry.stamp.checkpoint is not None and entry.stamp.run > 1:
            position = position_of(decode(entry.stamp.checkpoint).data) or Position()
            bases.setdefault(entry.stamp.run, position.base)
    here = [run for run, base in bases.items() if base == checkpoint]
    return sum(not _asked(log, run) <= _asked(log, run + 1) for run in here)


def _asked(log: Sequence[Entry], run: int) -> set[str]:
    """Return the ids of the interrupts that the input of a run answers."""
    events = ((entry.stamp.run, event) for entry in log for event in entry.events)
    return {each["id"] for each in interrupts_in(events, run)}


def _first_position(log: Sequence[Entry]) -> Position:
    for entry in log:
        if entry.stamp.checkpoint is not None:
            return position_of(decode(entry.stamp.checkpoint).data) or Position()
    return Position()
