"""Task state's operations, from request body to answer body."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

import orjson

from headrace.model.errors import StateUnavailable
from headrace.model.events import Json
from headrace.model.messages import GetTask, ListTasks
from headrace_task_state.commands.for_workers import ForWorkers, Question
from headrace_task_state.queries.get import Tasks
from headrace_task_state.queries.listing import Lists
from headrace_task_state.ranges import Range
from headrace_task_state.store import Reader

TIMEOUT = 4.0
"""Seconds after which a timeout error is sent; callers wait longer."""


class Answers:
    """Answers requests of gateways and workers."""

    def __init__(
        self,
        tasks: Tasks,
        lists: Lists,
        for_workers: ForWorkers,
        reader: Reader,
        ranges: Iterable[Range],
    ) -> None:
        """Answer with these components."""
        self._for_workers = for_workers
        self._tasks, self._lists = tasks, lists
        self._reader, self._ranges = reader, list(ranges)

    async def get(self, query: GetTask) -> bytes:
        """Return a `TaskFound`; see `Tasks.get` for what is raised."""
        return await _in_time(self._tasks.get(query))

    async def list(self, query: ListTasks) -> bytes:
        """Return a `TasksFound`; see `Lists.list` for what is raised."""
        return await _in_time(self._lists.list(query))

    async def for_worker(self, question: Question, agent: str) -> bytes:
        """Answer a worker of `agent`; see `ForWorkers.answer` for what is raised."""
        return await _in_time(self._for_workers.answer(question, agent))

    async def ready(self) -> bytes:
        """Return ``{"following": …}``: whether every range is being applied by some replica."""
        try:
            following = await self._reader.are_followed(self._ranges)
        except StateUnavailable:
            following = False
        return orjson.dumps({"following": following})


async def _in_time(answer: Coroutine[Any, Any, Json]) -> bytes:
    async with asyncio.timeout(TIMEOUT):
        return orjson.dumps(await answer)
