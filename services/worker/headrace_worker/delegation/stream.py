"""A child's events as they come."""

from types import TracebackType
from typing import Self

from headrace.model.events import Json
from headrace.sdk.results import Result
from headrace_worker.delegation.child import Child, Events
from headrace_worker.delegation.children import Children, in_time


class ChildStream:
    """What `RunContext.delegate_stream` returns."""

    def __init__(self, children: Children, child: Child) -> None:
        """Stream `child`, one of `children`."""
        self._children, self._child = children, child
        self._events: Events = child.listen()
        self._result: Result | None = None
        self._waits = False

    @property
    def task(self) -> str:
        """The child's task id."""
        return self._child.key.task

    async def result(self) -> Result:
        """Return what it has come to, waiting for it.

        Raises:
            DelegationFailed, RunOver: as `RunContext.delegate`.
        """
        if self._result is None:
            self._result = await self._children.result(self._child)
        return self._result

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Json:
        """Return the next event.

        Raises:
            DelegationFailed, RunOver: it has not come to a good end.
        """
        if not self._waits:
            self._waits = True
            self._children.leave(self._child)
        try:
            event = await in_time(self._child, self._events.get())
        except BaseException:
            await self._stop()
            raise
        if event is None:
            await self._stop()
            await self.result()
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self._stop()
        self._children.give_up(self._child)

    async def _stop(self) -> None:
        if self._waits:
            self._waits = False
            await self._children.come_back(self._child)
