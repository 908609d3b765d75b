"""Answers are validated against schemas that others wrote, in bounded time."""

from typing import Any

import pytest

from headrace.adapters.questions.answers import AnswerInvalid
from headrace.adapters.questions.response_schemas import conforming


def doubling(levels: int) -> dict[str, Any]:
    """Return a schema of 60 bytes a level, each of which applies the next one twice."""
    named: dict[str, Any] = {
        f"a{level}": {"allOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$defs": {**named, f"a{levels}": {}}, "$ref": "#/$defs/a0"}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "schema",
    [
        doubling(40),
        {"$ref": "#"},
        {"properties": {"a": {"pattern": "^(a+)+$"}}},
        {"properties": {"a": {"pattern": "(a|a)*b"}}},
        {"properties": {"a": {"pattern": "a*a*a*a*a*a*a*b"}}},
        {"propertyNames": {"pattern": "^(b+)+$"}},
        {"patternProperties": {"^(b+)+$": {}}},
        {"patternProperties": {"^(b+)+$": {}}, "additionalProperties": {}},
        {"patternProperties": {"^(b+)+$": {}}, "unevaluatedProperties": {}},
    ],
    ids=str,
)
def test_a_schema_that_would_take_for_ever_does_not(schema: dict[str, Any]) -> None:
    answer = {"a": "a" * 900 + "!", "b" * 900 + "!": 1}
    assert conforming("q", answer, schema) == answer


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"pattern": r"^\d{4}-\d{2}$"}, "2026-11", "later"),
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
