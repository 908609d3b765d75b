"""Tools whose calls are steps."""

import asyncio
import inspect
import typing
from datetime import date
from typing import Any, override

import pytest
from pydantic import BaseModel

from headrace import RunContext, agent, once, tool
from headrace.model.events import Json
from headrace.model.step import StepRecord
from headrace.sdk.active_run import active_run
from headrace.sdk.direct_run import DirectRun
from headrace.sdk.drive import drive
from headrace.sdk.errors import Misdeclared
from headrace.sdk.tool_call import ToolOutput


class Recorded(DirectRun):
    """A run that keeps the records of its steps."""

    def __init__(self) -> None:
        super().__init__("shop", "hi")
        self.records: list[StepRecord] = []

    @override
    async def record(self, record: StepRecord, shown: Json | None) -> None:
        assert shown is not None
        self.records.append(record)


@tool(once=True)
async def charge(ctx: RunContext, amount: int, idempotency_key: str, note: str = "") -> str:
    """Charge."""
    return f"{ctx.task} {amount} {note} {len(idempotency_key)}"


@tool(once=True, timeout=0.01)
async def endless() -> None:
    """Take long."""
    await asyncio.Event().wait()


def test_a_model_is_not_asked_for_the_key() -> None:
    assert list(charge.parameters["properties"]) == ["amount", "note"]
    assert charge.parameters["required"] == ["amount"]


async def test_calls_are_steps_known_by_their_arguments() -> None:
    run = Recorded()
    paid = ToolOutput(f"{run.context.task} 1  36")
    assert await charge.call(run.context, {"amount": 1}) == paid
    for arguments in ({"note": "", "amount": 1}, '{"amount": 2}'):
        await charge.call(run.context, arguments)
    (first, one), (second, another), (other, two) = (record.id for record in run.records)
    assert first == second != other
    assert (one, another, two) == (0, 1, 0)
    assert first.startswith("tool:charge ")
    assert not any(record.in_order for record in run.records)


async def test_calls_are_known_by_sets_and_models() -> None:
    class Order(BaseModel):
        id: int
        day: date

    @tool(once=True)
    def tag(numbers: set[int], day: date) -> None:
        """Tag."""

    @once
    def buy(order: Order) -> None:
        """Buy."""

    @agent
    async def shop(ctx: RunContext) -> None:
        for numbers in ([0, 8], [8, 0], [0, 9]):
            await tag.call(ctx, {"numbers": numbers, "day": "2030-01-01"})
        await tag.call(ctx, {"numbers": [0, 9], "day": "2030-01-02"})
        for number in (1, 1, 2):
            await buy(Order(id=number, day=date(2030, 1, 1)))

    run = Recorded()
    await drive(shop, run.context)
    assert [record.id[1] for record in run.records] == [0, 1, 0, 0, 0, 1, 0]


async def test_a_tool_that_takes_too_long_says_so() -> None:
    assert await endless.call(Recorded().context, {}) == ToolOutput(error="endless timed out")


@once
async def pay(amount: int, idempotency_key: str = "none") -> str:
    """Pay."""
    return f"{amount} {idempotency_key}"


@once
def paid(amount: int) -> int:
    return amount


def test_a_framework_reads_the_function_without_its_key() -> None:
    assert (pay.__name__, pay.__doc__) == ("pay", "Pay.")
    assert list(inspect.signature(pay).parameters) == ["amount"]
    assert typing.get_type_hints(pay) == {"amount": int, "return": str}
    assert inspect.iscoroutinefunction(pay)
    assert inspect.iscoroutinefunction(paid)


async def test_a_framework_s_tool_is_a_step_of_the_run_that_calls_it() -> None:
    found: list[Any] = []

    @agent
    async def shop(_: RunContext) -> None:
        found.extend(await asyncio.gather(pay(1), pay(1), pay(amount=2), paid(3)))

    run = Recorded()
    await drive(shop, run.context)
    assert [len(text) for text in found[:3]] == [38, 38, 38]
    assert len(set(found)) == 4
    assert found[3] == 3
    names = {record.id[0].partition(" ")[0] for record in run.records}
    assert names == {"tool:pay", "tool:paid"}


async def test_it_is_a_function_outside_of_a_run() -> None:
    assert active_run() is None
    assert len({await pay(1), await pay(1)}) == 2
    assert await paid(3) == 3


def test_a_declared_tool_is_none_of_a_framework() -> None:
    with pytest.raises(Misdeclared, match="once needs a function, not FunctionTool"):
        once(charge)
