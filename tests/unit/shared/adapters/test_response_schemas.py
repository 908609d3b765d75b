"""Answers are validated against schemas that others wrote, in bounded time."""

from typing import Any
from uuid import UUID

import pytest

from headrace.adapters.questions.answers import AnswerInvalid
from headrace.adapters.questions.response_schemas import conforming


def doubling(levels: int) -> dict[str, Any]:
    """Return a schema of 60 bytes a level, each of which applies the next one twice."""
    named: dict[str, Any] = {
        f"a{level}": {"allOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$defs": {**named, f"a{levels}": {}}, "$ref": "#/$defs/a0"}


ANSWER = {"a": "a" * 900 + "!", "b" * 900 + "!": 1}


def of_a(pattern: str) -> dict[str, Any]:
    """Return a schema in which the member ``a`` matches `pattern`."""
    return {"properties": {"a": {"pattern": pattern}}}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "schema",
    [
        doubling(40),
        {"$ref": "#"},
        of_a(r"(?=a)b"),
        of_a(r"(a)\1b"),
        of_a("(?:(?:(?:a?){100}){100}){9}b"),
        of_a("b" * 1001),
        {"patternProperties": {"^(b+)+$": {}}},
        {"patternProperties": {"^(b+)+$": {}}, "additionalProperties": False},
        {"patternProperties": {"^(b+)+$": {}}, "unevaluatedProperties": False},
        {"allOf": [{"patternProperties": {"b?" * 30 + "b" * 30 + "c": {}}}]},
    ],
    ids=str,
)
def test_what_could_take_for_ever_is_not_validated(schema: dict[str, Any]) -> None:
    assert conforming("q", ANSWER, schema) == ANSWER


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "schema",
    [
        of_a("^(a+)+$"),
        of_a("(a|a)*b"),
        of_a("a*a*a*a*a*a*a*b"),
        of_a("a?" * 30 + "a" * 30 + "b"),
        of_a("(a|a)" * 30 + "b"),
        {"propertyNames": {"pattern": "^(b+)+$"}},
        {"allOf": [of_a("a*a*b")] * 1000},
    ],
    ids=lambda schema: str(schema)[:60],
)
def test_a_pattern_takes_linear_time(schema: dict[str, Any]) -> None:
    with pytest.raises(AnswerInvalid, match="does not match"):
        conforming("q", ANSWER, schema)


@pytest.mark.timeout(60)
def test_a_validation_has_a_time() -> None:
    slow = [of_a(r"\w{90}x" + str(number)) for number in range(2000)]
    assert conforming("q", {"a": "é" * 1000}, {"anyOf": slow}) == {"a": "é" * 1000}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("twice", [{"n": 1}, [True], 1, "x", None], ids=str)
def test_many_parts_are_compared_in_linear_time(twice: object) -> None:
    schema = {"uniqueItems": True}
    many: list[object] = [{"n": {"of": number}} for number in range(20_000)]
    many += [1, True, "1", None, {"n": 1}, {"n": True}, [True], [1], "x"]
    assert conforming("q", many, schema) == many
    with pytest.raises(AnswerInvalid, match="non-unique"):
        conforming("q", [*many, twice], schema)
    with pytest.raises(AnswerInvalid, match="non-unique"):
        conforming("q", [*many, {"n": 1.0}], schema)


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"pattern": r"^\d{4}-\d{2}$"}, "2026-11", "later"),
        ({"pattern": r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}, str(UUID(int=1)), "later"),
        ({"pattern": r"^[^@ ]+@[^@ ]+\.[a-z]{2,}$"}, "a@b.example", "a at b"),
        ({"pattern": "^yes"}, "yes please", "no"),
        ({"patternProperties": {"^n_": {"type": "integer"}}}, {"n_a": 1}, {"n_a": "x"}),
        (doubling(8), {}, None),
        ({"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n"}, 1, [1]),
    ],
    ids=str,
)
def test_what_takes_a_usual_time_is_validated(
    schema: dict[str, Any], right: object, wrong: object
) -> None:
    assert conforming("q", right, schema) == right
    if wrong is not None:
        with pytest.raises(AnswerInvalid):
            conforming("q", wrong, schema)


def test_an_answer_of_many_parts_is_validated_to_its_end() -> None:
    schema = {"items": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    many: list[dict[str, object]] = [{"n": n} for n in range(3000)]
    assert conforming("q", many, schema) == many
    with pytest.raises(AnswerInvalid, match=r"2999\.n"):
        conforming("q", [*many[:-1], {"n": "x"}], schema)
