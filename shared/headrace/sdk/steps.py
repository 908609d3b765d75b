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
import typing
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial
from hashlib import blake2b
from time import monotonic
from typing import Any, Protocol
from uuid import UUID, uuid5

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.step import COMPLETED, FAILED, MOST_IN_HEADER, ShownStep, StepId, StepRecord
from headrace.model.task import TaskKey
from headrace.sdk.errors import (
    AgentExited,
    MalformedOutput,
    Misdeclared,
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

_LONGEST_NAME = 200
_LONGEST_KEY = 500
_LONGEST_ERROR = 1000
"""Characters of names, keys and the messages of recorded errors."""

_MOST_OF_ERROR = 4 * 1024
"""Bytes of such a message as ASCII JSON, where a character has up to 12: a record is a header."""

_KEYS = UUID("d0f0a3f5-2c66-5f0e-9c3b-6a3d3c5d7b11")
"""Namespace of idempotency keys."""

_PREFIX = 16
"""Digits of the prefix of steps within a step."""

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
        if self.timeout is not None and not _is_seconds(self.timeout):
            raise Misused(
                f"the timeout of step {self.name!r} must be more than 0 s and at most"
                f" {LONGEST:.0f} s"
            )
        if self.returns is not None and _adapter(self.returns) is None:
            raise Misused(f"the returns of step {self.name!r} must be a type that Pydantic knows")
        if self.retry is not None:
            if not isinstance(self.retry, Retry):
                raise Misused(f"the retry of step {self.name!r} must be a Retry: write Retry(…)")
            self.retry.check(f"step {self.name!r}")


def _is_text(value: object, longest: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= longest


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value <= LONGEST


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


class _Uses:
    """The uses of names: those of a run, or of one call of a step's function."""

    def __init__(self, prefix: str = "", asked: Iterable[StepId] = ()) -> None:
        """Number uses after those `asked` for, of names that get `prefix` in the log."""
        self.prefix = prefix
        self._asked, self._next = set(asked), dict[str, int]()

    def add(self, id_: StepId) -> None:
        """Count a use that has a record."""
        self._asked.add(id_)

    def has(self, series: str, number: int) -> bool:
        """Return whether that use has been counted."""
        return (series, number) in self._asked

    def next(self, series: str) -> int:
        """Return the number of the name's first use that has not been counted."""
        number = self._next.get(series, 0)
        while self.has(series, number):
            number += 1
        self._next[series] = number
        return number


class StepScope:
    """What one call of a step's function asks for, apart from what the agent asks for.

    Each call asks for the same: steps that it calls have a name of their step's, and numbers of
    their own. So the agent's own steps have their numbers whether the function is called or not.
    """

    def __init__(self, id_: StepId, key: str) -> None:
        """Begin a call for the step with that idempotency key."""
        self.uses = _Uses(_prefix(id_))
        self._key, self._minted = key, Counter[str]()

    def mint(self, kind: str) -> str:
        """Return the next id of `kind`; the same in each call of the step's function."""
        self._minted[kind] += 1
        return f"{self._key}/{kind}/{self._minted[kind]}"


def _prefix(id_: StepId) -> str:
    """Return what begins the names of the steps that the step's function calls."""
    return f"{blake2b(json.dumps(id_).encode(), digest_size=_PREFIX // 2).hexdigest()}/"


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
        used = {record.id for record in asked}
        self._uses = _Uses(asked=used)
        self._unasked = {id_: None for id_ in self._recorded if id_ not in used}
        self._within = defaultdict[str, list[StepId]](list)
        """Steps that functions of other steps called, by prefix."""
        for id_ in self._recorded:
            if id_[0][_PREFIX : _PREFIX + 1] == "/":
                self._within[id_[0][: _PREFIX + 1]].append(id_)
        self._running = dict[StepId, asyncio.Event]()
        """The events are set when the run is stopped."""
        self._recording = set[StepId]()
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
        try:
            call.check()
        except (Misused, Misdeclared) as error:
            raise type(error)(f"{error}{called_at()}") from None
        scope = _scope.get()
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
        inner = self._within.pop(_prefix(id_), ()) if self._within else ()
        for each in inner:
            self._recorded.pop(each, None)
            self._unasked.pop(each, None)
            self._forget_within(each)

    def _id(self, call: StepCall, uses: _Uses) -> StepId:
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
        key, began, scope = self._idempotency_key(id_), monotonic(), _scope.get()
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

    def _idempotency_key(self, id_: StepId) -> str:
        return str(uuid5(_KEYS, json.dumps([self._task, self._run, *id_])))

    async def _made(self, call: StepCall, id_: StepId, key: str) -> str | tuple[str, str]:
        """Return the function's result as JSON, or its error to record."""
        try:
            result = await _tried(call, id_, key, self._running[id_])
        except Exception as error:
            if not call.record_errors or is_of_fleet(error):
                raise
            return type(error).__name__, _shortened(str(error))
        return _encoded(call, result)

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


def _shortened(message: str) -> str:
    message = message[:_LONGEST_ERROR]
    while len(json.dumps(message)) > _MOST_OF_ERROR:
        message = message[: len(message) // 2]
    return message


async def _tried(call: StepCall, id_: StepId, key: str, stop: asyncio.Event) -> Any:  # noqa: ANN401  # the function's
    retry = call.retry
    for failures in itertools.count(1):
        _scope.set(StepScope(id_, key))
        try:
            return await _called(call, key)
        except Exception as error:
            if retry is None or failures >= retry.attempts or not _is_retried(error, retry):
                raise
            own = error.after if isinstance(error, Retryable) else None
        await _pause(retry.pause(failures) if own is None else own, stop)
    raise AssertionError("there is always another number")


async def _pause(seconds: float, stop: asyncio.Event) -> None:
    """Wait before another call.

    Raises:
        CancelledError: The run is stopped, and another call might be cut in half.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    if stop.is_set():
        raise asyncio.CancelledError


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
    if isinstance(function, partial) and IDEMPOTENCY_KEY in function.keywords:
        return False  # The agent passes one.
    try:
        return IDEMPOTENCY_KEY in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False  # of a function in C


def digest_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return a digest of a call's arguments; empty: they have none.

    JSON, Pydantic models, sets, and values such as times count. Other objects do not, which may be
    a framework's context and differ between attempts.
    """
    try:
        text = _written([args, kwargs])
    except (TypeError, ValueError, RecursionError):
        return ""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _written(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=_counted)


def _counted(value: object) -> Any:  # noqa: ANN401  # any JSON
    match value:
        case BaseModel():
            return value.model_dump(warnings=False)
        case set() | frozenset():
            return sorted(map(_written, value))  # Processes write a set in different orders.
        case date() | time() | timedelta() | UUID() | Decimal() | Enum() | bytes():
            return str(value)
    return None


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
        made = _made_adapter(kind)
    except (PydanticUserError, TypeError):
        return None  # as of a class of its own, whose instances are no JSON
    return made if made.pydantic_complete else None


@lru_cache(maxsize=512)
def _made_adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401  # a type
    return TypeAdapter(kind)
