"""Steps: functions that are called once in a run, however many attempts it takes.

The result of a step is stored in the log before the agent gets it. A later attempt that asks for
the same step gets the record, and the function is not called. It runs at least once: a worker that
is killed between the function's effect and its record leaves none.

A step is known by its name and the number of that name's use in the run, or by its key. The order
of different names may change. Code that runs alone, in the agent's own asyncio task, asks for the
same steps in each attempt as long as it is the same; if it asks for another one, the run fails
before something is done twice or not at all.
"""

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Any, Protocol

from pydantic import ValidationError

from headrace.model.events import Json
from headrace.model.step import COMPLETED, FAILED, MOST_IN_HEADER, ShownStep, StepId, StepRecord
from headrace.model.task import TaskKey
from headrace.sdk.errors import (
    Misdeclared,
    Misused,
    StepAmbiguous,
    StepChanged,
    StepFailed,
    is_of_fleet,
)
from headrace.sdk.source import called_at
from headrace.sdk.step_call import StepCall, result_of
from headrace.sdk.step_ids import Uses, idempotency_key, prefix_in, prefix_of, step_scope
from headrace.sdk.step_values import decoded, digest_of, encoded, shortened

_log = logging.getLogger(__name__)

_REMEDY = (
    "pin tasks to the version of the agent that began them, give the step a key=, and decide by"
    " recorded values alone: results of steps, ctx.now, ctx.random and ctx.uuid"
)


class StepFiles(Protocol):
    """The files of the run's task, for large results."""

    async def store(self, content: bytes, media_type: str = "") -> str | None:
        """Store a file of the task and return its link. None: no file store is configured."""

    async def content(self, link: str) -> bytes:
        """Return the content of a stored file."""


class StepLog(Protocol):
    """Where the steps of an attempt are recorded and shown."""

    @property
    def files(self) -> StepFiles:
        """The task's files."""

    @property
    def is_alone(self) -> bool:
        """Whether the agent's own asyncio task awaits the caller, without a framework between."""

    def shown(self, name: str) -> AbstractContextManager[object]:
        """Show that a step runs during a block."""

    async def record(self, record: StepRecord, shown: Json | None) -> None:
        """Store a record with `shown` as its event's metadata, and return when it is stored.

        Raises:
            RunOver: The run has ended.
        """


class Steps:
    """The steps of one attempt at a run."""

    def __init__(
        self,
        key: TaskKey,
        run: int,
        log: StepLog,
        recorded: Iterable[StepRecord] = (),
        asked: Iterable[StepRecord] = (),
    ) -> None:
        """Begin an attempt that finds in its log what is `recorded`.

        The attempt continues from a checkpoint before which those `asked` had been asked for.
        """
        self._task, self._run, self._log = key.task, run, log
        self._recorded = {record.id: record for record in recorded}
        used = {record.id for record in asked}
        self._uses = Uses(asked=used)
        self._unasked = {id_: None for id_ in self._recorded if id_ not in used}
        self._within = defaultdict[str, list[StepId]](list)
        """Steps that functions of other steps called, by prefix."""
        for id_ in self._recorded:
            if (prefix := prefix_in(id_)) is not None:
                self._within[prefix].append(id_)
        self._running = dict[StepId, asyncio.Event]()
        """The events are set when the run is stopped."""
        self._recording = set[StepId]()
        self._has_failed = False
        """Whether the agent may have handled a failure that is not recorded."""
        self.changed: StepChanged | None = None
        """Why the run fails, whatever the agent makes of it. None: its steps fit the log."""

    @property
    def unasked(self) -> list[StepId]:
        """The recorded steps that the attempt has not asked for yet."""
        return list(self._unasked)

    async def run(self, call: StepCall) -> Any:  # noqa: ANN401  # the function's
        """Return the step's recorded result, or call its function and record what it returns.

        Raises:
            StepChanged, StepAmbiguous, StepFailed, MalformedOutput, RunOver: See `RunContext.step`.
            Exception: The function's own, if errors are not recorded.
        """
        if self.changed is not None:
            raise self.changed
        try:
            call.check()
        except (Misused, Misdeclared) as error:
            raise type(error)(f"{error}{called_at()}") from None
        try:
            return await self._run_checked(call)
        except StepChanged as changed:
            self.changed = changed
            raise

    async def _run_checked(self, call: StepCall) -> Any:  # noqa: ANN401  # the function's
        scope = step_scope()
        uses = self._uses if scope is None else scope.uses
        # A model that is asked again may call its tools in another order.
        in_order = scope is None and not call.alike and self._log.is_alone
        id_ = self._id(call, uses)
        record = self._recorded.get(id_)
        if record is None:
            if in_order:
                self._check_order(call)
            record = await self._performed(call, id_, in_order=in_order)
        else:
            _check_arguments(call, record)
            self._unasked.pop(id_, None)
        uses.add(id_)
        self._forget_within(id_)
        if scope is None and call.key is None:
            self._recorded.pop(id_, None)
        return await self._result(call, record)

    def _forget_within(self, id_: StepId) -> None:
        """Forget the steps that the step's function called: it is not called again."""
        inner = self._within.pop(prefix_of(id_), ()) if self._within else ()
        for each in inner:
            self._recorded.pop(each, None)
            self._unasked.pop(each, None)
            self._forget_within(each)

    def _id(self, call: StepCall, uses: Uses) -> StepId:
        series = f"{uses.prefix}{call.series}"
        if call.key is not None:
            id_: StepId = (f"{uses.prefix}{call.name}", call.key)
            if id_ in self._running:
                raise StepAmbiguous(
                    f"step {call.name!r} is called twice at the same time with one key;"
                    f" give each call a key of its own{called_at()}"
                )
            return id_
        number = uses.next(series)
        if not call.alike and (series, number) in self._running:
            raise StepAmbiguous(
                f"step {call.name!r} is called twice at the same time, and another attempt could"
                f" not tell which call is which; give each call a"
                f" {'key=' if call.is_shown else 'name'}{called_at()}"
            )
        while (series, number) in self._running or uses.has(series, number):
            number += 1
        return series, number

    def _check_order(self, call: StepCall) -> None:
        for id_ in self._unasked:
            if self._recorded[id_].in_order:
                name, use = id_
                which = f"with key {use!r}" if isinstance(use, str) else f"number {use + 1}"
                raise StepChanged(
                    f"step {call.name!r} has no record, but step {name!r} ({which}), which an"
                    f" earlier attempt did instead, was not asked for; {_REMEDY}{called_at()}"
                )

    async def _performed(self, call: StepCall, id_: StepId, *, in_order: bool) -> StepRecord:
        perform = self._perform(call, id_, in_order=in_order)
        work = asyncio.Task(perform, loop=asyncio.get_running_loop(), eager_start=True)
        stopped: asyncio.CancelledError | None = None
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError as cancelled:
                stopped = cancelled
                if id_ in self._running:
                    self._running[id_].set()
                if call.interruptible and id_ not in self._recording:
                    work.cancel()
        if stopped is None:
            return await work
        self._has_failed = self._has_failed or in_order
        if not work.cancelled() and (error := work.exception()) is not None:
            _log.info("step %r of a stopped run failed: %r", call.name, error)
        raise stopped

    async def _perform(self, call: StepCall, id_: StepId, *, in_order: bool) -> StepRecord:
        """Call the step's function, and record its result."""
        key, began, scope = idempotency_key(self._task, self._run, id_), monotonic(), step_scope()
        # Functions may change their arguments, which another attempt passes unchanged.
        arguments = digest_of(call.args, call.kwargs)
        self._running[id_] = asyncio.Event()
        try:
            with self._log.shown(call.name) if call.is_shown else nullcontext():
                made = await self._made(call, id_, key)
            self._recording.add(id_)
            error = made if isinstance(made, tuple) else None
            value, link = await self._offloaded(id_, made)
            in_order = in_order and not self._has_failed
            record = StepRecord(id_, value, link, error, arguments, in_order=in_order)
            await self._log.record(record, _shown(call, error, monotonic() - began))
        except BaseException:
            self._has_failed = self._has_failed or in_order
            raise
        finally:
            del self._running[id_]
            self._recording.discard(id_)
        self._recorded[id_] = record
        if scope is not None:
            self._within[scope.uses.prefix].append(id_)
        return record

    async def _made(self, call: StepCall, id_: StepId, key: str) -> str | tuple[str, str]:
        """Return the function's result as JSON, or its error to record."""
        try:
            result = await result_of(call, id_, key, self._running[id_])
        except Exception as error:
            if not call.record_errors or is_of_fleet(error):
                raise
            return type(error).__name__, shortened(str(error))
        return encoded(call.name, result, call.adapter)

    async def _offloaded(self, id_: StepId, made: str | tuple[str, str]) -> tuple[str | None, str]:
        if isinstance(made, tuple):
            return None, ""
        if len(made) + len(json.dumps(id_)) > MOST_IN_HEADER:
            link = await self._log.files.store(made.encode(), "application/json")
            if link is not None:
                return None, link
        return made, ""

    async def _result(self, call: StepCall, record: StepRecord) -> Any:  # noqa: ANN401  # the function's
        if record.error is not None:
            raise StepFailed(call.name, *record.error)
        text = record.value
        if text is None:
            text = (await self._log.files.content(record.link)).decode()
        try:
            return decoded(text, call.adapter)
        except ValidationError as error:
            raise StepChanged(
                f"the recorded result of step {call.name!r} does not fit its type:"
                f" {error.error_count()} problems; keep the type readable, or"
                f" {_REMEDY}{called_at()}"
            ) from error


def _shown(call: StepCall, error: tuple[str, str] | None, seconds: float) -> Json | None:
    if not call.is_shown:
        return None
    return ShownStep(call.name, COMPLETED if error is None else FAILED, seconds).metadata()


def _check_arguments(call: StepCall, record: StepRecord) -> None:
    if not record.arguments:
        return
    given = digest_of(call.args, call.kwargs)
    if given and given != record.arguments:
        raise StepChanged(
            f"step {call.name!r} is recorded with other arguments; {_REMEDY}."
            f" If an error of the step was handled, use record_errors=True{called_at()}"
        )
