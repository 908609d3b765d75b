"""What a trigger may declare, which events fire it, and who may use which subject."""

import pytest
from pydantic import ValidationError

from headrace.model.event_template import Event
from headrace.model.field_rule import first_problem
from headrace.trigger_spec import TriggerSpec
from headrace.triggers import covers, may_use, overlap

SPEC = {"name": "orders", "agent": "shop", "subject": "orders.*", "stream": "ORDERS"}


def spec(**changed: object) -> TriggerSpec:
    return TriggerSpec.model_validate(SPEC | changed)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"name": "a b"}, "name: "),
        ({"agent": "a b"}, "agent: "),
        ({"subject": ">"}, "subject: must be a NATS subject whose first token is a name"),
        ({"subject": "*.created"}, "subject: "),
        ({"subject": "$JS.API.>"}, "subject: "),
        ({"subject": "_INBOX.>"}, "subject: "),
        ({"subject": "a..b"}, "subject: "),
        ({"subject": "a" * 256}, "subject: String should have at most 255 characters"),
        ({"subject": "a.>.b"}, "subject: "),
        ({"stream": "a.b"}, "stream: "),
        ({"text": "{id}"}, "text: 'id' must be subject, headers.NAME or body"),
        ({"context": "{"}, "context: has a single brace"),
        ({"data": {"x": "x"}}, "data: 'x' must be"),
        ({"filter": {"x": 1}}, "filter: 'x' must be"),
        ({"priority": "urgent"}, "priority: "),
        ({"limit": 0}, "limit: "),
        ({"stream": None, "paused": True}, "trigger: paused: events over core NATS can't wait"),
        ({"tenant": "other"}, "tenant: "),
    ],
)
def test_a_rule_that_is_broken_is_named(changed: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError) as broken:
        spec(**changed)
    assert first_problem(broken.value, "trigger").startswith(complaint)


@pytest.mark.parametrize(
    ("expected", "fires"),
    [
        (5, True),
        (6, False),
        ("5", False),
        ([4, 5], True),
        ([], False),
        ({"min": 5, "max": 5}, True),
        ({"min": 6}, False),
        ({"max": 4}, False),
        ({"exists": True}, True),
        ({"exists": False}, False),
    ],
)
def test_a_condition_holds_for_values_of_its_kind(expected: object, fires: bool) -> None:  # noqa: FBT001
    event = Event.of("orders.new", None, b'{"n": 5}')
    assert spec(filter={"body.n": expected}).matches(event) == fires


def test_what_is_missing_and_truth_values_are_no_numbers() -> None:
    event = Event.of("orders.new", None, b'{"yes": true}')
    assert spec(filter={"body.n": {"exists": False}}).matches(event)
    assert not spec(filter={"body.n": None}).matches(event)
    assert not spec(filter={"body.yes": 1}).matches(event)
    assert not spec(filter={"body.yes": {"min": 0}}).matches(event)


def test_without_templates_the_message_is_the_body() -> None:
    assert spec().parts(Event.of("orders.new", None, b'{"n": 5}')) == [{"data": {"n": 5}}]
    assert spec().parts(Event.of("orders.new", None, b"hello")) == [{"text": "hello"}]


@pytest.mark.parametrize(
    ("subject", "tenant", "allowed", "may"),
    [
        ("orders.new", "default", [], True),
        ("orders.new", "acme", [], False),
        ("headrace.event.>", "default", [], False),
        ("headrace.*.>", "default", ["headrace.>"], False),
        ("acme.orders", "acme", ["{tenant}.>"], True),
        ("other.orders", "acme", ["{tenant}.>"], False),
        ("orders.new", "acme", ["orders.>", "{tenant}.>"], False),
        ("orders.new", "default", ["orders.>"], True),
        ("orders.>", "default", ["orders.*"], False),
        ("bills.new", "default", ["orders.>"], False),
    ],
)
def test_a_tenant_uses_its_own_subjects(
    subject: str,
    tenant: str,
    allowed: list[str],
    may: bool,  # noqa: FBT001
) -> None:
    assert may_use(subject, tenant, allowed, "headrace") == may


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        ("a.*", "a.*", True),
        ("a.b", "a.*", False),
        ("a.*", "a.b.c", False),
        ("a.*.c", "a.>", False),
    ],
)
def test_a_pattern_covers_what_it_matches_whatever_comes(
    pattern: str,
    subject: str,
    expected: bool,  # noqa: FBT001
) -> None:
    assert covers(pattern, subject) == expected


def test_patterns_overlap_if_one_subject_matches_both() -> None:
    assert overlap("a.*.c", "a.b.*")
    assert overlap("a.>", "a.b.c")
    assert not overlap("a.b", "a.b.c")
    assert not overlap("a.b", "a.c")
