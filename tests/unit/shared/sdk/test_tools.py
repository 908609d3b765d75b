"""Python functions as tools: what a model is shown of them, and what is refused."""

import asyncio
import threading
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from headrace import RunContext, ToolOutput, agent, tool
from headrace.sdk.errors import Misdeclared
from headrace.sdk.tools import as_tools


class Place(BaseModel):
    """Where."""

    city: str
    country: str = "de"


@tool
async def forecast(  # noqa: D417  # what the model is shown needs no more
    ctx: RunContext,
    place: Place,
    days: Annotated[int, Field(ge=1, le=7)] = 1,
    unit: Literal["c", "f"] = "c",
) -> str:
    """Tell the weather.

    For some days to come.

    Args:
        place: Where it is asked for.
        unit (str): Celsius or Fahrenheit.

    Returns:
        The forecast.
    """
    return f"{ctx} {place} {days} {unit}"


def test_its_schema_comes_from_annotations_and_docstring() -> None:
    assert (forecast.name, forecast.description) == (
        "forecast",
        "Tell the weather.\n\nFor some days to come.",
    )
    properties = forecast.parameters["properties"]
    assert set(properties) == {"place", "days", "unit"}
    assert properties["place"] == {
        "$ref": "#/$defs/Place",
        "description": "Where it is asked for.",
    }
    assert properties["days"] == {"type": "integer", "minimum": 1, "maximum": 7, "default": 1}
    assert properties["unit"]["enum"] == ["c", "f"]
    assert properties["unit"]["description"] == "Celsius or Fahrenheit."
    assert forecast.parameters["required"] == ["place"]
    assert forecast.parameters["$defs"]["Place"]["required"] == ["city"]


def test_a_parameter_may_be_called_title() -> None:
    @tool
    def book(title: str) -> str:
        """Find a book."""
        return title

    assert book.parameters["properties"] == {"title": {"type": "string"}}


def test_a_tool_is_still_the_function() -> None:
    @tool(name="plus", description="Adds.")
    def add(a: int, b: int) -> int:
        return a + b

    assert (add(1, b=2), add.name, add.description) == (3, "plus", "Adds.")


def no_annotation(a) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001  # what is refused
    """Do nothing."""


def any_number(*a: int) -> None:
    """Do nothing."""


def no_schema(a: "Unknown") -> None:  # type: ignore[name-defined]  # noqa: F821  # what is refused
    """Do nothing."""


class Opaque:
    """Nothing that JSON can be."""


def opaque(a: Opaque) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (no_annotation, "a needs a type annotation"),
        (any_number, "parameter a must accept a keyword argument"),
        (no_schema, "for tool 'no_schema'"),
        (opaque, "for tool 'opaque'"),
    ],
)
def test_a_function_without_a_schema_is_refused(function: object, why: str) -> None:
    with pytest.raises(Misdeclared, match=why):
        as_tools([function])  # type: ignore[list-item]  # object is wider than what is taken


class HalfTool:
    """Can be called, but has neither a description nor parameters."""

    name = "half"

    async def call(self, *_: object) -> ToolOutput:
        return ToolOutput()


def test_what_is_no_tool_is_refused() -> None:
    with pytest.raises(Misdeclared, match="int is not a tool"):
        as_tools([3])  # type: ignore[list-item]  # what is refused
    with pytest.raises(Misdeclared, match="HalfTool is not a tool"):
        as_tools([HalfTool()])  # type: ignore[list-item]  # it has no schema for a model


async def test_as_many_tools_block_at_once_as_runs_call_them() -> None:
    many = 600
    meeting = threading.Barrier(many)

    @tool
    def meet() -> str:
        meeting.wait(60)
        return "met"

    @agent
    async def caller(ctx: RunContext) -> str:
        return str(await ctx.call(meet))

    replies = await asyncio.gather(*(caller("") for _ in range(many)))
    assert [reply.text for reply in replies] == ["met"] * many
