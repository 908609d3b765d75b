"""A checkpointer that keeps graphs' states in the fleet: they need no database."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from headrace.adapters.langgraph.records import (
    ROOT,
    CheckpointRecord,
    ThreadPlace,
    Typed,
    WritesRecord,
    pending_writes,
)
from headrace.adapters.langgraph.run_memory import blocking, from_thread, run_memory
from headrace.model.memory import MemoryValue
from headrace.sdk.errors import Misused

_INLINE = 4 * 1024
"""Largest value in bytes that each checkpoint repeats."""

_PASSING = ("__", "branch:")
"""Beginnings of the names of LangGraph's own channels, which last for a step."""

_REMEMBERED = 1024
"""Threads of which the last checkpoint's values are known in this process."""


@dataclass(frozen=True, slots=True)
class _LastCheckpoint:
    """What a thread's last checkpoint has, so that the next one need not have it too."""

    id: str
    values: Mapping[str, tuple[Any, Typed | str]]
    """By channel: its version, and its value, or the id of the checkpoint that has it."""

    def get(self, channel: str, version: object) -> Typed | str | None:
        """Return the value of a channel, or who has it; None: its version is another."""
        there, held = self.values.get(channel, (None, None))
        return held if there == version else None


class FleetSaver(BaseCheckpointSaver[int]):
    """Keeps the checkpoints of a graph in the fleet's memory.

    ``graph = builder.compile(checkpointer=FleetSaver())``

    A task's thread, which `langgraph_agent` uses, is erased with its task. Any other thread belongs
    to the conversation of the run that uses it. A thread's last checkpoint is the one that was
    written last. Methods raise `RunOver` once another worker has the run, and `Misused` outside of
    a run.
    """

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        """Serialize with `serde`; by default, as LangGraph does."""
        super().__init__(serde=serde)
        self._known = OrderedDict[tuple[ThreadPlace, str], _LastCheckpoint]()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names, or its thread's last one."""
        place, space, name = self._place(config)
        memory = run_memory(self)
        if name is not None:
            found = await memory.get(place.scope, place.checkpoint(space, name))
        else:
            _, found = await memory.last(place.scope, place.checkpoints(space)) or ("", None)
        if found is None:
            return None
        record = CheckpointRecord.decode(self.serde, found.data)
        # Another worker may have stored it, or removed what an earlier one names.
        self._remember(place, record, record.checkpoint["channel_versions"])
        stored = await memory.read(place.scope, place.writes(space, record.id))
        writes = pending_writes(self.serde, stored.values())
        return await self._tuple(place, record, writes)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the checkpoints of a thread, the last one first.

        Without `config`: of the task's thread, and of all in the conversation.
        """
        end = get_checkpoint_id(before) if before else None
        wanted = filter or {}
        for place in await self._places(config):
            space = config["configurable"].get("checkpoint_ns") if config else None
            name = get_checkpoint_id(config) if config else None
            newest = None if name or end or wanted else limit
            records = [
                record
                for record in await self._records(place, space, newest)
                if (name is None or record.id == name)
                and (end is None or record.id < end)
                and all(record.metadata.get(key) == value for key, value in wanted.items())
            ]
            if limit is not None:
                records = records[max(len(records) - limit, 0) :]
                limit -= len(records)
            if not records:
                continue
            stored = await run_memory(self).read(place.scope, place.writes(space))
            writes = pending_writes(self.serde, stored.values())
            for record in reversed(records):
                yield await self._tuple(place, record, writes)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, in one message unless it is large, and return its configuration."""
        place, space, parent = self._place(config)
        kept: dict[str, Any] = {**checkpoint}
        values: dict[str, Any] = kept.pop("channel_values")
        known = self._known.get((place, space))
        here, at = dict[str, Typed](), dict[str, str]()
        for channel, value in values.items():
            before = None
            if known is not None and known.id == parent and channel not in new_versions:
                before = known.get(channel, checkpoint["channel_versions"].get(channel))
            if isinstance(before, str):
                at[channel] = before
            else:
                here[channel] = before or self._serialized(channel, value)
        record = CheckpointRecord(
            place.thread,
            space,
            checkpoint["id"],
            parent,
            kept,
            {**get_checkpoint_metadata(config, metadata)},
            here,
            at,
        )
        await self._put(place, record)
        self._remember(place, record, checkpoint["channel_versions"])
        return _config(place, space, record.id)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task of the graph has written, at a checkpoint, in one message."""
        place, space, name = self._place(config)
        if not writes or name is None:
            return
        record = WritesRecord.of((space, name), writes, task_id, task_path)
        end, data = record.encode(self.serde)
        await run_memory(self).put(place.scope, place.writes(space, name) + end, data, None)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread."""
        memory = run_memory(self)
        place = ThreadPlace.of(memory.scope, thread_id)
        for key in await memory.keys(place.scope, place.prefix):
            await memory.delete(place.scope, key, None)
        self._known.clear()

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of LangGraph's runs, as their metadata names them."""
        wanted = set(run_ids)
        for place in await self._places(None):
            records = await self._records(place)
            gone = {(one.space, one.id) for one in records if one.metadata.get("run_id") in wanted}
            await self._remove(place, records, gone)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread, with all its checkpoints and writes."""
        memory = run_memory(self)
        source = ThreadPlace.of(memory.scope, source_thread_id)
        target = ThreadPlace.of(memory.scope, target_thread_id)
        for record in await self._records(source):
            record.thread = target.thread
            await self._put(target, record)
        begin = source.writes()
        for key, value in (await memory.read(source.scope, begin)).items():
            copy = target.writes() + key.removeprefix(begin)
            await memory.put(target.scope, copy, value.data, None)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete the checkpoints of threads: all, or those before the last of each namespace.

        Checkpoints from which a channel of the last one is built are kept, too.

        Raises:
            ValueError: The strategy is neither ``keep_latest`` nor ``delete``.
        """
        if strategy not in {"keep_latest", "delete"}:
            raise ValueError(f"strategy {strategy!r} must be 'keep_latest' or 'delete'")
        for thread in thread_ids:
            if strategy == "delete":
                await self.adelete_thread(thread)
                continue
            place = ThreadPlace.of(run_memory(self).scope, thread)
            records = await self._records(place)
            gone = {(one.space, one.id) for one in records} - _needed(records)
            await self._remove(place, records, gone)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """As `alist`, from a thread."""

        async def every() -> Sequence[CheckpointTuple]:
            found = self.alist(config, filter=filter, before=before, limit=limit)
            return [one async for one in found]

        return iter(from_thread(self, every()))

    get_tuple = blocking(aget_tuple)
    put = blocking(aput)
    put_writes = blocking(aput_writes)
    delete_thread = blocking(adelete_thread)
    delete_for_runs = blocking(adelete_for_runs)
    copy_thread = blocking(acopy_thread)
    prune = blocking(aprune)

    def _serialized(self, channel: str, value: object) -> Typed:
        try:
            return self.serde.dumps_typed(value)
        except (TypeError, ValueError) as error:
            raise Misused(
                f"the graph's {channel!r} can't be stored: {error}; use types that LangGraph"
                ' serializes, or saver="graph" to keep the state for a run only'
            ) from error

    async def _put(self, place: ThreadPlace, record: CheckpointRecord) -> None:
        key = place.checkpoint(record.space, record.id)
        await run_memory(self).put(place.scope, key, record.encode(self.serde), None)

    def _remember(
        self, place: ThreadPlace, record: CheckpointRecord, versions: ChannelVersions
    ) -> None:
        values = dict[str, tuple[Any, Typed | str]]()
        for channel, typed in record.values.items():
            held = typed if len(typed[1]) <= _INLINE else record.id
            values[channel] = versions.get(channel), held
        for channel, holder in record.at.items():
            values[channel] = versions.get(channel), holder
        self._known[place, record.space] = _LastCheckpoint(record.id, values)
        self._known.move_to_end((place, record.space))
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    async def _records(
        self, place: ThreadPlace, space: str | None = None, newest: int | None = None
    ) -> Sequence[CheckpointRecord]:
        """Return the checkpoints of a thread, or so many of its `newest`, the last one last."""
        stored = await run_memory(self).read(place.scope, place.checkpoints(space), newest)
        return self._decoded(stored.values())

    def _decoded(self, stored: Iterable[MemoryValue]) -> Sequence[CheckpointRecord]:
        in_order = sorted(stored, key=lambda value: value.revision)
        return [CheckpointRecord.decode(self.serde, one.data) for one in in_order]

    async def _remove(
        self,
        place: ThreadPlace,
        records: Sequence[CheckpointRecord],
        gone: AbstractSet[tuple[str, str]],
    ) -> None:
        """Delete those of a thread's checkpoints that are `gone`, and their writes."""
        memory, moved = run_memory(self), set[str]()
        by_name = {(one.space, one.id): one for one in records}
        for record in records:
            if (record.space, record.id) in gone:
                continue
            lost = [name for name, at in record.at.items() if (record.space, at) in gone]
            for channel in lost:
                holder = by_name[record.space, record.at.pop(channel)]
                record.values[channel] = holder.values[channel]
            if lost or record.space in moved:
                # Those behind it are stored again, too: the last one must stay the last.
                moved.add(record.space)
                await self._put(place, record)
        for space, name in gone:
            await memory.delete(place.scope, place.checkpoint(space, name), None)
            for key in await memory.keys(place.scope, place.writes(space, name)):
                await memory.delete(place.scope, key, None)
        self._known.clear()

    async def _tuple(
        self,
        place: ThreadPlace,
        record: CheckpointRecord,
        writes: Mapping[tuple[str, str], Sequence[PendingWrite]],
    ) -> CheckpointTuple:
        values = {name: self.serde.loads_typed(typed) for name, typed in record.values.items()}
        for holder in set(record.at.values()):
            key = place.checkpoint(record.space, holder)
            found = await run_memory(self).get(place.scope, key)
            if found is None:
                raise LookupError(f"checkpoint {holder} of thread {place.thread!r} is gone")
            there = CheckpointRecord.decode(self.serde, found.data).values
            values |= {
                name: self.serde.loads_typed(there[name])
                for name, at in record.at.items()
                if at == holder
            }
        checkpoint: Any = {**record.checkpoint, "channel_values": values}
        metadata: Any = record.metadata
        parent = None if record.parent is None else _config(place, record.space, record.parent)
        return CheckpointTuple(
            _config(place, record.space, record.id),
            checkpoint,
            metadata,
            parent,
            [*writes.get((record.space, record.id), ())],
        )

    async def _places(self, config: RunnableConfig | None) -> Sequence[ThreadPlace]:
        """Return the thread of `config`; without it, the task's and those of the conversation."""
        memory = run_memory(self)
        if config is not None:
            return [ThreadPlace.of(memory.scope, config["configurable"]["thread_id"])]
        found = dict[ThreadPlace, None]()
        for scope in (memory.scope, memory.scope._replace(task=None)):
            stored = await memory.read(scope, ROOT)
            records = self._decoded(one for key, one in stored.items() if "/checkpoints/" in key)
            found |= {ThreadPlace.of(memory.scope, record.thread): None for record in records}
        return [*found]

    def _place(self, config: RunnableConfig) -> tuple[ThreadPlace, str, str | None]:
        """Return the thread, the namespace and the checkpoint's id of a configuration."""
        named = config["configurable"]
        place = ThreadPlace.of(run_memory(self).scope, named["thread_id"])
        return place, named.get("checkpoint_ns", ""), get_checkpoint_id(config)


def _config(place: ThreadPlace, space: str, name: str) -> RunnableConfig:
    named = {"thread_id": place.thread, "checkpoint_ns": space, "checkpoint_id": name}
    return {"configurable": named}


def _needed(records: Sequence[CheckpointRecord]) -> AbstractSet[tuple[str, str]]:
    """Return the last checkpoint of each namespace, and those that its channels are built from.

    A channel without a value may be one that LangGraph builds from the writes at the checkpoints
    before, back to one that has a value.
    """
    by_name = {(one.space, one.id): one for one in records}
    needed = set[tuple[str, str]]()
    for last in {one.space: one for one in records}.values():
        one: CheckpointRecord | None = last
        without = {
            name for name in last.checkpoint["channel_versions"] if not name.startswith(_PASSING)
        }
        while one is not None and (one is last or without):
            needed.add((one.space, one.id))
            without -= one.values.keys() | one.at.keys()
            one = by_name.get((one.space, one.parent or ""))
    return needed
