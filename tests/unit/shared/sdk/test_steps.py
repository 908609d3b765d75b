"""Steps of a run, over its attempts: each attempt gets what the records of earlier ones say."""

import asyncio
import math
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, NoReturn

import pytest
from pydantic import BaseModel

from headrace import MalformedOutput, Retry, Retryable, StepChanged, StepFailed
from headrace.log.append import HEADER_ROOM
from headrace.model.events import Json
from headrace.model.step import MOST_IN_HEADER, ShownStep, StepRecord
from headrace.model.task import TaskKey
from headrace.sdk.errors import AgentExited, Misdeclared, Misused, RunOver, StepAmbiguous
from headrace.sdk.step_call import StepCall
from headrace.sdk.steps import Steps

KEY = TaskKey("default", "shop", "0-abc")
WIDE = "🔢"
"""12 bytes of ASCII JSON."""


class Log:
    """The log of one run, as its steps use it."""

    def __init__(self) -> None:
        self.headers: list[str] = []
        self.shown_steps: list[ShownStep | None] = []
        self.stored: dict[str, bytes] = {}
        self.main: asyncio.Task[Any] | None = None
        self.is_over = False

    @property
    def files(self) -> "Log":
        return self

    async def store(self, content: bytes, media_type: str = "") -> str:
        link = f"file-{len(self.stored)}"
        self.stored[link] = content
        assert media_type == "application/json"
        return link

    async def content(self, link: str) -> bytes:
        return self.stored[link]

    @property
    def is_alone(self) -> bool:
        return self.main is asyncio.current_task()

    def shown(self, name: str) -> AbstractContextManager[object]:
        assert name
        return nullcontext()

    async def record(self, record: StepRecord, shown: Json | None) -> None:
        await asyncio.sleep(0)
        if self.is_over:
            raise RunOver("the run is over")
        header = record.encode()
        assert header.isascii()
        assert len(header) < HEADER_ROOM - 1024
        assert "\n" not in header
        self.headers.append(header)
        self.shown_steps.append(None if shown is None else ShownStep.of(shown))

    @property
    def records(self) -> list[StepRecord]:
        found = [StepRecord.decode(header, at) for at, header in enumerate(self.headers, 2)]
        return [one for one in found if one is not None]


class Attempts:
    """Attempts at one run, each by new code."""

    def __init__(self) -> None:
        self.log = Log()
        self.calls: list[Any] = []

    def begin(self) -> Steps:
        self.log.main = asyncio.current_task()
        return Steps(KEY, 1, self.log, self.log.records)

    def note[T](self, first: T, *_: object) -> T:
        self.calls.append(first)
        return first


@pytest.fixture
def attempts() -> Attempts:
    return Attempts()


def step(
    name: str,
    function: Callable[..., Any],
    *args: object,
    **options: Any,  # noqa: ANN401  # a StepCall's
) -> StepCall:
    return StepCall(name=name, function=function, args=args, **options)


async def test_a_later_attempt_gets_the_record_and_does_not_call_the_function(
    attempts: Attempts,
) -> None:
    for _ in range(3):
        steps = attempts.begin()
        assert await steps.run(step("charge", attempts.note, 7)) == 7
        assert await steps.run(step("charge", attempts.note, 8)) == 8
        assert await steps.run(step("mail", attempts.note, "Grüße\t🔢\n")) == "Grüße\t🔢\n"
    assert attempts.calls == [7, 8, "Grüße\t🔢\n"]
    assert [one.id for one in attempts.log.records] == [("charge", 0), ("charge", 1), ("mail", 0)]


class Order(BaseModel):
    id: int
    paid: datetime


@dataclass
class Line:
    article: str


@dataclass
class Unfinished:
    of: "NotImported"  # type: ignore[name-defined]  # noqa: F821  # what is tested


def _unfinished() -> Unfinished:
    return Unfinished(1)


def typed_order() -> Order:
    return Order(id=1, paid=datetime(2030, 1, 1, tzinfo=UTC))


def pair() -> tuple[int, str]:
    return 1, "a"


def any_pair() -> Any:  # noqa: ANN401  # what is tested
    return 1, "a"


async def line() -> Line:
    return Line("nail")


def large() -> int:
    return 2**200


def nothing() -> None:
    pass


def half_of_a_character() -> str:
    return "half \ud83d 🔢"


def much() -> str:
    return "x" * MOST_IN_HEADER


def no_number() -> float:
    return math.inf


@pytest.mark.parametrize(
    ("function", "options", "result"),
    [
        (typed_order, {}, typed_order()),
        (pair, {}, (1, "a")),
        (any_pair, {}, [1, "a"]),
        (any_pair, {"returns": tuple[int, str]}, (1, "a")),
        (line, {}, Line("nail")),
        (large, {}, 2**200),
        (no_number, {}, math.inf),
        (nothing, {}, None),
        (half_of_a_character, {}, "half \ufffd 🔢"),
        (much, {}, "x" * MOST_IN_HEADER),
    ],
)
async def test_the_first_attempt_gets_what_the_others_get(
    attempts: Attempts, function: Callable[[], Any], options: Json, result: object
) -> None:
    for _ in range(2):
        found = await attempts.begin().run(step("make", function, **options))
        assert (type(found), found) == (type(result), result)
    assert len(attempts.log.headers) == 1


async def test_a_large_result_is_in_a_file_of_the_task(attempts: Attempts) -> None:
    steps = attempts.begin()
    await steps.run(step("fit", lambda: "x" * (MOST_IN_HEADER - 2 - len('["fit", 0]'))))
    assert not attempts.log.stored
    await steps.run(step("too large", lambda: "x" * (MOST_IN_HEADER - 1)))
    assert list(attempts.log.stored.values()) == [b'"' + b"x" * (MOST_IN_HEADER - 1) + b'"']
    assert len(attempts.log.headers[1]) < 100


async def test_a_record_fits_its_header(attempts: Attempts) -> None:
    def fail() -> NoReturn:
        raise OSError(WIDE * 2000)

    key = WIDE * 500
    for _ in range(2):
        steps = attempts.begin()
        text = "x" * (MOST_IN_HEADER - 2)
        assert await steps.run(step(WIDE * 200, attempts.note, text, key=key)) == text
        with pytest.raises(StepFailed, match=f"OSError: {WIDE * 200}"):
            await steps.run(step(WIDE * 199, fail, key=key, record_errors=True))
    assert len(attempts.log.headers) == 2


@pytest.mark.parametrize("result", [object(), b"\xff", {1: object()}], ids=["a", "b", "c"])
async def test_a_result_that_is_not_json_is_refused(attempts: Attempts, result: object) -> None:
    with pytest.raises(MalformedOutput, match="'odd' is not JSON"):
        await attempts.begin().run(step("odd", lambda: result))
    assert not attempts.log.headers


async def test_a_result_that_does_not_fit_its_type_is_refused(attempts: Attempts) -> None:
    with pytest.raises(MalformedOutput, match="does not fit its type"):
        await attempts.begin().run(step("odd", lambda: "one", returns=int))
    assert not attempts.log.headers


async def test_a_record_that_a_new_type_can_t_read_is_an_error(attempts: Attempts) -> None:
    await attempts.begin().run(step("odd", lambda: "one"))
    with pytest.raises(StepChanged, match="'odd' does not fit its type"):
        await attempts.begin().run(step("odd", lambda: 1, returns=int))


async def test_a_step_gets_the_same_idempotency_key_in_each_attempt(attempts: Attempts) -> None:
    def charge(amount: int, *, idempotency_key: str) -> int:
        attempts.note(idempotency_key)
        raise OSError(amount)

    for _ in range(2):
        steps = attempts.begin()
        for key in (None, None, "order"):
            with pytest.raises(OSError, match="5"):
                await steps.run(step("charge", charge, 5, key=key))
        await steps.run(step("charge", lambda: 1))
        with pytest.raises(OSError, match="5"):
            await steps.run(step("charge", charge, 5))
        attempts.log.headers.clear()
    first, again, keyed, second, *others = attempts.calls
    assert first == again
    assert len({first, keyed, second}) == 3
    assert others == [first, again, keyed, second]


async def test_a_key_that_the_agent_passes_is_its_own(attempts: Attempts) -> None:
    def charge(*, idempotency_key: str) -> str:
        return idempotency_key

    call = StepCall(name="charge", function=charge, kwargs={"idempotency_key": "mine"})
    assert await attempts.begin().run(call) == "mine"


async def test_the_order_of_different_names_may_change_in_parallel_code(
    attempts: Attempts,
) -> None:
    async def branch(steps: Steps, name: str) -> Any:  # noqa: ANN401  # what `note` returns
        return await steps.run(step(name, attempts.note, name))

    steps = attempts.begin()
    await asyncio.gather(branch(steps, "a"), branch(steps, "b"))
    steps = attempts.begin()
    found = await asyncio.gather(*(branch(steps, name) for name in "cba"))
    assert found == ["c", "b", "a"]
    assert sorted(attempts.calls) == ["a", "b", "c"]


async def test_one_name_at_the_same_time_needs_keys(attempts: Attempts) -> None:
    steps = attempts.begin()
    calls = [steps.run(step("get", asyncio.sleep, 0, n)) for n in range(2)]
    first, second = await asyncio.gather(*calls, return_exceptions=True)
    assert first == 0
    assert isinstance(second, StepAmbiguous)
    assert "'get' is called twice" in str(second)
    assert "key=" in str(second)
    for _ in range(2):
        steps = attempts.begin()
        keyed = [steps.run(step("get", asyncio.sleep, 0, n, key=f"{n}")) for n in range(2)]
        assert await asyncio.gather(*keyed) == [0, 1]
    assert len(attempts.log.headers) == 3


async def test_one_key_at_the_same_time_is_refused(attempts: Attempts) -> None:
    steps = attempts.begin()
    calls = [steps.run(step("get", asyncio.sleep, 0, key="k")) for _ in range(2)]
    _, second = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(second, StepAmbiguous)


async def test_a_key_names_one_use(attempts: Attempts) -> None:
    steps = attempts.begin()
    for key in ("a", "a", "b"):
        await steps.run(step("get", attempts.note, 1, key=key))
    assert attempts.calls == [1, 1]


async def test_alike_calls_are_interchangeable(attempts: Attempts) -> None:
    for _ in range(2):
        steps = attempts.begin()
        calls = [steps.run(step("get", asyncio.sleep, 0, n, alike="x")) for n in (1, 1)]
        assert await asyncio.gather(*calls) == [1, 1]
    assert [one.id for one in attempts.log.records] == [("get x", 0), ("get x", 1)]


async def test_sequential_code_that_asks_for_another_step_fails_before_it_is_done(
    attempts: Attempts,
) -> None:
    steps = attempts.begin()
    await steps.run(step("reserve", attempts.note, 1))
    await steps.run(step("charge", attempts.note, 2))
    steps = attempts.begin()
    await steps.run(step("reserve", attempts.note, 1))
    with pytest.raises(StepChanged, match=r"'pay' has no record, but step 'charge' \(number 1\)"):
        await steps.run(step("pay", attempts.note, 3))
    assert attempts.calls == [1, 2]


async def test_a_new_step_after_all_recorded_ones_is_done(attempts: Attempts) -> None:
    await attempts.begin().run(step("reserve", attempts.note, 1))
    steps = attempts.begin()
    await steps.run(step("reserve", attempts.note, 1))
    assert await steps.run(step("pay", attempts.note, 3)) == 3


async def test_other_arguments_than_the_recorded_ones_are_an_error(attempts: Attempts) -> None:
    await attempts.begin().run(step("charge", attempts.note, {"amount": 1}, attempts, {1, 2}))
    await attempts.begin().run(step("charge", attempts.note, {"amount": 1}, object(), {2, 1}))
    with pytest.raises(StepChanged, match=r"'charge' is recorded with other arguments.*versions?"):
        await attempts.begin().run(step("charge", attempts.note, {"amount": 2}, attempts, {1}))
    assert len(attempts.calls) == 1


async def test_a_handled_error_is_no_change_of_the_code(attempts: Attempts) -> None:
    async def agent(steps: Steps, *, works: bool) -> None:
        def card() -> str:
            if not works:
                raise OSError
            return "card"

        await steps.run(step("reserve", attempts.note, "reserve"))
        try:
            await steps.run(step("card", card))
        except OSError:
            await steps.run(step("bill", attempts.note, "bill"))
        await steps.run(step("mail", attempts.note, "mail"))

    await agent(attempts.begin(), works=False)
    await agent(attempts.begin(), works=False)
    await agent(attempts.begin(), works=True)
    assert attempts.calls == ["reserve", "bill", "mail"]


async def test_an_error_is_not_recorded_unless_asked_for(attempts: Attempts) -> None:
    def fail() -> NoReturn:
        attempts.note("called")
        raise KeyError("no such card")

    for _ in range(2):
        with pytest.raises(KeyError):
            await attempts.begin().run(step("charge", fail))
    for _ in range(2):
        with pytest.raises(StepFailed, match="KeyError: 'no such card'") as error:
            await attempts.begin().run(step("charge", fail, record_errors=True))
        assert (error.value.step, error.value.kind) == ("charge", "KeyError")
    assert len(attempts.calls) == 3
    assert [one and one.state for one in attempts.log.shown_steps] == ["failed"]


async def test_an_error_after_which_the_run_is_tried_again_is_never_recorded(
    attempts: Attempts,
) -> None:
    async def fail() -> NoReturn:
        raise Retryable("later")

    with pytest.raises(Retryable):
        await attempts.begin().run(step("charge", fail, record_errors=True))
    assert not attempts.log.headers


BRISK = Retry(attempts=3, backoff=0.0)


@pytest.mark.parametrize(
    ("retry", "error", "calls"),
    [
        (None, OSError(), 1),
        (BRISK, OSError(), 3),
        (BRISK, Retryable(after=0.0), 3),
        (BRISK, Misused("odd"), 1),
        (BRISK, RunOver("over"), 1),
        (Retry(attempts=3, backoff=0.0, on=(TimeoutError,)), TimeoutError(), 3),
        (Retry(attempts=3, backoff=0.0, on=(TimeoutError,)), OSError(), 1),
        (Retry(attempts=3, backoff=0.0, on=(TimeoutError,)), Retryable(), 3),
    ],
)
async def test_a_function_is_called_again_as_its_retry_says(
    attempts: Attempts, retry: Retry | None, error: Exception, calls: int
) -> None:
    def fail() -> NoReturn:
        attempts.note("called")
        raise error

    with pytest.raises(type(error)):
        await attempts.begin().run(step("charge", fail, retry=retry))
    assert len(attempts.calls) == calls


async def test_a_call_that_takes_too_long_is_given_up_and_made_again(attempts: Attempts) -> None:
    async def first_hangs() -> int:
        attempts.note("called")
        if len(attempts.calls) == 1:
            await asyncio.Event().wait()
        return 1

    steps = attempts.begin()
    assert await steps.run(step("get", first_hangs, timeout=0.02, retry=BRISK)) == 1
    with pytest.raises(TimeoutError, match=r"'wait' took more than 0.01 s"):
        await steps.run(step("wait", asyncio.Event().wait, timeout=0.01))


async def test_a_function_that_is_not_async_runs_in_a_thread(attempts: Attempts) -> None:
    name = await attempts.begin().run(step("where", lambda: threading.current_thread().name))
    assert name.startswith("call")


async def test_a_function_that_exits_ends_only_its_run(attempts: Attempts) -> None:
    async def leave() -> NoReturn:
        raise SystemExit

    with pytest.raises(AgentExited, match="'leave' raised SystemExit"):
        await attempts.begin().run(step("leave", leave))


async def test_a_stopped_run_finishes_and_records_its_step_first(attempts: Attempts) -> None:
    goes_on = asyncio.Event()

    async def charge() -> str:
        await goes_on.wait()
        return "charged"

    async def agent() -> None:
        await attempts.begin().run(step("charge", charge))

    running = asyncio.ensure_future(agent())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running], timeout=0.02)
    assert not running.done()
    goes_on.set()
    await asyncio.wait([running])
    assert running.cancelled()
    assert [one.value for one in attempts.log.records] == ['"charged"']


async def test_a_stopped_run_cuts_an_interruptible_step(attempts: Attempts) -> None:
    async def agent() -> None:
        call = step("wait", asyncio.Event().wait, interruptible=True)
        await attempts.begin().run(call)

    running = asyncio.ensure_future(agent())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert not attempts.log.headers


@pytest.mark.parametrize("is_in_call", [True, False])
async def test_a_stopped_run_calls_no_function_again(
    attempts: Attempts, *, is_in_call: bool
) -> None:
    goes_on = asyncio.Event()

    async def fail() -> NoReturn:
        attempts.note(1)
        if is_in_call:
            await goes_on.wait()
        raise OSError

    async def agent() -> None:
        call = step("charge", fail, retry=Retry(backoff=30), record_errors=True)
        await attempts.begin().run(call)

    running = asyncio.ensure_future(agent())
    await asyncio.sleep(0)
    running.cancel()
    goes_on.set()
    assert await asyncio.wait([running], timeout=20) == ({running}, set())
    assert running.cancelled()
    assert attempts.calls == [1]
    assert not attempts.log.headers


async def test_times_at_the_same_time_need_names(attempts: Attempts) -> None:
    steps, call = attempts.begin(), step("ctx.now now", attempts.note, 1, is_shown=False)
    with pytest.raises(StepAmbiguous, match="give each call a name"):
        await asyncio.gather(steps.run(call), steps.run(call))


async def test_a_step_whose_record_is_refused_has_no_result(attempts: Attempts) -> None:
    attempts.log.is_over = True
    with pytest.raises(RunOver):
        await attempts.begin().run(step("charge", attempts.note, 1))
    assert attempts.calls == [1]


async def test_records_before_a_checkpoint_count_as_uses_unless_they_are_left(
    attempts: Attempts,
) -> None:
    steps = attempts.begin()
    for number in range(2):
        await steps.run(step("work", attempts.note, number))
    records = attempts.log.records
    resumed = Steps(KEY, 1, attempts.log, records, records)
    assert resumed.unasked == []
    assert await resumed.run(step("work", attempts.note, 2)) == 2
    resumed = Steps(KEY, 1, attempts.log, records, records[:1])
    assert resumed.unasked == [("work", 1)]
    assert await resumed.run(step("work", attempts.note, 1)) == 1
    assert attempts.calls == [0, 1, 2]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (step("", len), "name must be text"),
        (step("x" * 201, len), "name must be text"),
        (StepCall(name="a", function="b"), "'a' needs a function"),  # type: ignore[arg-type]
        (step("a", len, key=""), "key of step 'a'"),
        (step("a", len, timeout=0.0), "timeout of step 'a'"),
        (step("a", len, timeout="5"), "timeout of step 'a'"),
        (step("a", list, returns=threading.Lock), "returns of step 'a'"),
    ],
)
async def test_a_wrong_option_is_an_error(attempts: Attempts, call: StepCall, why: str) -> None:
    with pytest.raises(Misused, match=why):
        await attempts.begin().run(call)


async def test_a_wrong_retry_is_an_error(attempts: Attempts) -> None:
    with pytest.raises(Misdeclared, match=r"retry.attempts of step 'a'"):
        await attempts.begin().run(step("a", len, retry=Retry(attempts=0)))


@pytest.mark.parametrize(
    "header",
    ["", "null", "[]", '{"name": 1, "use": 0}', '{"name": "a", "use": true}', '{"name": "a"}'],
)
def test_a_malformed_record_is_none(header: str) -> None:
    assert StepRecord.decode(header, 2) is None


async def test_a_timeout_that_the_agent_handles_is_no_change_of_the_code(
    attempts: Attempts,
) -> None:
    async def agent(steps: Steps, seconds: float) -> None:
        try:
            async with asyncio.timeout(0.02):
                await steps.run(step("look", asyncio.sleep, seconds, "seen"))
        except TimeoutError:
            await steps.run(step("give up", attempts.note, "gave up"))
        await steps.run(step("mail", attempts.note, "mail"))

    await agent(attempts.begin(), 0.05)
    await agent(attempts.begin(), 0.05)
    assert attempts.calls == ["gave up", "mail"]
    assert [one.in_order for one in attempts.log.records] == [True, False, False]


async def test_a_step_s_function_may_have_steps_that_are_asked_for_with_it(
    attempts: Attempts,
) -> None:
    async def outer(steps: Steps) -> str:
        await steps.run(step("inner", attempts.note, "inner"))
        attempts.note("outer")
        return "done"

    for _ in range(2):
        steps = attempts.begin()
        assert await steps.run(step("outer", outer, steps)) == "done"
        await steps.run(step("after", attempts.note, "after"))
    assert attempts.calls == ["inner", "outer", "after"]
    found = [(one.id[0].rpartition("/")[2], one.in_order) for one in attempts.log.records]
    assert found == [("inner", False), ("outer", True), ("after", True)]


async def test_a_step_within_a_step_takes_no_number_of_the_agent_s_steps(
    attempts: Attempts,
) -> None:
    async def outer(steps: Steps) -> int:
        return int(await steps.run(step("pay", lambda: 1)))

    for _ in range(2):
        steps = attempts.begin()
        assert await steps.run(step("outer", outer, steps)) == 1
        assert await steps.run(step("pay", lambda: 2)) == 2
        assert steps.unasked == []


async def test_a_function_that_is_called_again_gets_the_records_of_its_own_steps(
    attempts: Attempts,
) -> None:
    keys: list[str] = []

    def pay(idempotency_key: str) -> None:
        keys.append(idempotency_key)

    async def outer(steps: Steps) -> None:
        for _ in range(2):
            await steps.run(step("pay", pay))
        await steps.run(step("pay", pay, key="third"))
        attempts.note("outer")
        if len(attempts.calls) < 3:
            raise OSError

    for retry in (None, Retry(backoff=0.001)):
        steps = attempts.begin()
        with suppress(OSError):
            await steps.run(step("outer", outer, steps, retry=retry))
    assert attempts.calls == ["outer"] * 3
    assert len(keys) == len(set(keys)) == 3


async def test_steps_of_tools_are_bound_to_no_order(attempts: Attempts) -> None:
    await attempts.begin().run(step("tool:a", attempts.note, 1, alike="x"))
    await attempts.begin().run(step("tool:b", attempts.note, 2, alike="x"))
    assert attempts.calls == [1, 2]


async def test_a_function_may_change_its_arguments(attempts: Attempts) -> None:
    def append(numbers: list[int]) -> int:
        numbers.append(attempts.note(1))
        return len(numbers)

    for _ in range(2):
        assert await attempts.begin().run(step("append", append, [])) == 1
    assert attempts.calls == [1]


class Colour(Enum):
    RED = 1
    BLUE = 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            Order(id=1, paid=datetime(2030, 1, 1, tzinfo=UTC)),
            Order(id=1, paid=datetime(2030, 1, 2, tzinfo=UTC)),
        ),
        ({"a", "b"}, {"a", "c"}),
        (Colour.RED, Colour.BLUE),
        (Decimal(1), Decimal(2)),
    ],
)
async def test_arguments_that_are_values_count(
    attempts: Attempts, one: object, other: object
) -> None:
    await attempts.begin().run(step("charge", attempts.note, [one]))
    await attempts.begin().run(step("charge", attempts.note, [one]))
    with pytest.raises(StepChanged, match="other arguments"):
        await attempts.begin().run(step("charge", attempts.note, [other]))


async def test_a_key_that_a_partial_function_has_is_its_own(attempts: Attempts) -> None:
    def charge(*, idempotency_key: str) -> str:
        return idempotency_key

    call = step("charge", partial(charge, idempotency_key="mine"))
    assert await attempts.begin().run(call) == "mine"


async def test_a_result_whose_type_is_not_known_is_the_json(attempts: Attempts) -> None:
    for _ in range(2):
        assert await attempts.begin().run(step("get", _unfinished)) == {"of": 1}
