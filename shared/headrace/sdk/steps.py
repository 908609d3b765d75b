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
import inspect
import itertools
import json
import logging
import time
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Protocol
from uuid import UUID, uuid5

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.step import COMPLETED, FAILED, ShownStep, StepId, StepRecord
from headrace.model.task import TaskKey
from headrace.sdk.errors import (
    AgentExited,
    MalformedOutput,
    Misused,
    Retryable,
    StepAmbiguous,
    StepChanged,
    StepFailed,
    is_of_fleet,
)
from headrace.sdk.policy import LONGEST, Retry
from headrace.sdk.source import called_at
from headrace.sdk.thread_pool import call_in_thread

_log = logging.getLogger(__name__)

MOST = 8 * 1024
"""Maximum bytes of a result in the log; a larger one becomes a file of the task."""

_LONGEST_NAME = 200
_LONGEST_KEY = 500
_LONGEST_ERROR = 1000
"""Characters of names, keys and the messages of recorded errors."""

_KEYS = UUID("d0f0a3f5-2c66-5f0e-9c3b-6a3d3c5d7b11")
"""Namespace of idempotency keys."""

_SURROGATE = r"\ud"
"""How the escape of half of a character begins."""

IDEMPOTENCY_KEY = "idempotency_key"
"""Name of the parameter that gets the step's key, if its function has one."""

_REMEDY = (
    "pin tasks to the version of the agent that began them, give the step a key=, and decide by"
    " recorded values alone: results of steps, ctx.now, ctx.random and ctx.uuid"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCall:
    """A call of `RunContext.step`, or of a tool that is a step."""

    name: str
    function: Callable[..., Any]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    retry: Retry | None = None
    timeout: float | None = None
    returns: Any = None
    """Type of the result. None: the annotation of the function, if it has one."""
    interruptible: bool = False
    record_errors: bool = False
    alike: str = ""
    """Digest of what distinguishes calls of the name whose order may change. Calls with the same
    one are interchangeable, also at the same time."""
    is_shown: bool = True

    @property
    def series(self) -> str:
        """The name by which the call's uses are numbered."""
        return f"{self.name} {self.alike}" if self.alike else self.name

    def check(self) -> None:
        """Check the options.

        Raises:
            Misused: One is of another type, or has an invalid value.
            Misdeclared: One of `retry` has.
        """
        if not _is_text(self.name, _LONGEST_NAME):
            raise Misused(f"a step's name must be text of 1 to {_LONGEST_NAME} characters")
        if not callable(self.function):
            raise Misused(
                f"step {self.name!r} needs a function and its arguments, not"
                f" {type(self.function).__name__}: write ctx.step({self.name!r}, function, …)"
            )
        if self.key is not None and not _is_text(self.key, _LONGEST_KEY):
            raise Misused(
                f"the key of step {self.name!r} must be text of 1 to {_LONGEST_KEY} characters"
            )
        if self.timeout is not None and not 0 < self.timeout <= LONGEST:
            raise Misused(f"the timeout of step {self.name!r} must be more than 0 s")
        if self.returns is not None and _adapter(self.returns) is None:
            raise Misused(f"the returns of step {self.name!r} must be a type that Pydantic knows")
        if self.retry is not None:
            self.retry.check(f"step {self.name!r}")


def _is_text(value: object, longest: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= longest


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


class StepScope:
    """What a step's function asks its context for, apart from what the agent asks for."""

    def __init__(self, key: str) -> None:
        """Mint ids for the step with that idempotency key."""
        self._key, self._minted = key, Counter[str]()

    def mint(self, kind: str) -> str:
        """Return the next id of `kind`; the same in each call of the step's function."""
        self._minted[kind] += 1
        return f"{self._key}/{kind}/{self._minted[kind]}"


_scope: ContextVar[StepScope | None] = ContextVar("step_scope", default=None)


def step_scope() -> StepScope | None:
    """Return the scope of the step whose function is running. None: the agent itself is."""
    return _scope.get()


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
        self._used = {record.id for record in asked}
        self._unasked = {id_: None for id_ in self._recorded if id_ not in self._used}
        self._running = set[StepId]()
        self._recording = set[StepId]()
        self._next = dict[str, int]()
        self._has_failed = False
        """Whether the agent may have handled a failure that is not recorded."""

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
        call.check()
        id_, in_order = self._id(call), self._is_alone()
        record = self._recorded.get(id_)
        if record is None:
            if in_order:
                self._check_order(call)
            record = await self._performed(call, id_, in_order=in_order)
        else:
            _check_arguments(call, record)
            self._unasked.pop(id_, None)
        self._used.add(id_)
        if call.key is None:
            self._recorded.pop(id_, None)
        return await self._result(call, record)

    def _is_alone(self) -> bool:
        return _scope.get() is None and self._log.is_alone

    def _id(self, call: StepCall) -> StepId:
        series = call.series
        if call.key is not None:
            id_: StepId = (call.name, call.key)
            if id_ in self._running:
                raise StepAmbiguous(
                    f"step {call.name!r} is called twice at the same time with one key;"
                    f" give each call a key of its own{called_at()}"
                )
            return id_
        number = self._next.get(series, 0)
        while (series, number) in self._used:
            number += 1
        self._next[series] = number
        if not call.alike and (series, number) in self._running:
            raise StepAmbiguous(
                f"step {call.name!r} is called twice at the same time, and another attempt could"
                f" not tell which call is which; give each call a key={called_at()}"
            )
        while (series, number) in self._used or (series, number) in self._running:
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
        key, began = self._idempotency_key(id_), time.monotonic()
        _scope.set(StepScope(key))
        self._running.add(id_)
        try:
            with self._log.shown(call.name) if call.is_shown else nullcontext():
                made = await self._made(call, key)
            self._recording.add(id_)
            error = made if isinstance(made, tuple) else None
            value, link = await self._offloaded(made)
            arguments = digest_of(call.args, call.kwargs)
            in_order = in_order and not self._has_failed
            record = StepRecord(id_, value, link, error, arguments, in_order=in_order)
            await self._log.record(record, _shown(call, error, time.monotonic() - began))
        except BaseException:
            self._has_failed = self._has_failed or in_order
            raise
        finally:
            self._running.discard(id_)
            self._recording.discard(id_)
        self._recorded[id_] = record
        return record

    def _idempotency_key(self, id_: StepId) -> str:
        return str(uuid5(_KEYS, json.dumps([self._task, self._run, *id_])))

    async def _made(self, call: StepCall, key: str) -> str | tuple[str, str]:
        """Return the function's result as JSON, or its error to record."""
        try:
            result = await _tried(call, key)
        except Exception as error:
            if not call.record_errors or is_of_fleet(error):
                raise
            return type(error).__name__, str(error)[:_LONGEST_ERROR]
        return _encoded(call, result)

    async def _offloaded(self, made: str | tuple[str, str]) -> tuple[str | None, str]:
        if isinstance(made, tuple):
            return None, ""
        if len(made) > MOST:
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
            return _decoded(call, text)
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


async def _tried(call: StepCall, key: str) -> Any:  # noqa: ANN401  # the function's
    retry = call.retry
    for failures in itertools.count(1):
        try:
            return await _called(call, key)
        except Exception as error:
            if retry is None or failures >= retry.attempts or not _is_retried(error, retry):
                raise
            own = error.after if isinstance(error, Retryable) else None
        await asyncio.sleep(retry.pause(failures) if own is None else own)
    raise AssertionError("there is always another number")


def _is_retried(error: Exception, retry: Retry) -> bool:
    if isinstance(error, Retryable):
        return True
    if isinstance(error, Misused | MalformedOutput) or is_of_fleet(error):
        return False
    return isinstance(error, retry.on or Exception)


async def _called(call: StepCall, key: str) -> Any:  # noqa: ANN401  # the function's
    function, kwargs = call.function, dict(call.kwargs)
    if IDEMPOTENCY_KEY not in kwargs and takes_key(function):
        kwargs[IDEMPOTENCY_KEY] = key
    limit = asyncio.timeout(call.timeout)
    try:
        async with limit:
            if inspect.iscoroutinefunction(function):
                return await function(*call.args, **kwargs)
            result = await call_in_thread(function, *call.args, **kwargs)
            return await result if inspect.isawaitable(result) else result
    except (SystemExit, KeyboardInterrupt) as exit_:
        # Either would end the event loop, and with it the worker and all its runs.
        raise AgentExited(
            f"step {call.name!r} raised {type(exit_).__name__}; only its run ends: return, or"
            " raise an Exception"
        ) from exit_
    except TimeoutError:
        if limit.expired():
            raise TimeoutError(f"step {call.name!r} took more than {call.timeout:g} s") from None
        raise


def takes_key(function: Callable[..., Any]) -> bool:
    """Return whether the function has a parameter for its step's idempotency key."""
    try:
        return IDEMPOTENCY_KEY in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False  # of a function in C


def digest_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return a digest of a call's arguments; empty: they have none.

    What is no JSON in them does not count: two processes may write a set differently.
    """
    try:
        text = json.dumps([args, kwargs], sort_keys=True, default=lambda _: None)
    except (TypeError, ValueError, RecursionError):
        return ""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _check_arguments(call: StepCall, record: StepRecord) -> None:
    if not record.arguments:
        return
    given = digest_of(call.args, call.kwargs)
    if given and given != record.arguments:
        raise StepChanged(
            f"step {call.name!r} is recorded with other arguments; {_REMEDY}."
            f" If an error of the step was handled, use record_errors=True{called_at()}"
        )


def _encoded(call: StepCall, result: Any) -> str:  # noqa: ANN401  # the function's
    """Return the result as ASCII JSON.

    Raises:
        MalformedOutput: It is not JSON, or does not fit its type.
    """
    try:
        text = json.dumps(to_jsonable_python(result))
        if _SURROGATE in text:
            text = json_text.without_halves(text.encode()).decode()
        _decoded(call, text)
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
        what = "does not fit its type" if isinstance(error, ValidationError) else "is not JSON"
        raise MalformedOutput(
            f"the result of step {call.name!r} {what}; return JSON, a dataclass or a Pydantic"
            " model, and store large or binary content as a file"
        ) from error
    return text


def _decoded(call: StepCall, text: str) -> Any:  # noqa: ANN401  # the function's
    adapter = _adapter_of(call)
    return json.loads(text) if adapter is None else adapter.validate_json(text)


def _adapter_of(call: StepCall) -> TypeAdapter[Any] | None:
    """Return what validates the result; None: it has no type that Pydantic knows."""
    return _adapter(_annotation(call.function) if call.returns is None else call.returns)


def _annotation(function: Callable[..., Any]) -> Any:  # noqa: ANN401  # a type
    if not hasattr(function, "__annotations__"):
        return None
    try:
        return typing.get_type_hints(function, include_extras=True).get("return")
    except (NameError, TypeError, AttributeError):
        return None


_UNTYPED: tuple[Any, ...] = (None, type(None), Any, object)


def _adapter(kind: Any) -> TypeAdapter[Any] | None:  # noqa: ANN401  # a type
    if kind in _UNTYPED:
        return None
    try:
        return _made_adapter(kind)
    except (PydanticUserError, TypeError):
        return None  # as of a class of its own, whose instances are no JSON


@lru_cache(maxsize=512)
def _made_adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401  # a type
    return TypeAdapter(kind)
