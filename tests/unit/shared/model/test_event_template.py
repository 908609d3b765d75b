"""What templates take from events, and that nothing in an event is evaluated."""

import pytest

from headrace.model.event_template import (
    Event,
    PathMissing,
    filled,
    picked,
    why_no_path,
    why_no_template,
)

EVENT = Event.of(
    "orders.eu.created",
    {"Region": "eu", "X.Y": "dotted"},
    b'{"id": 7, "lines": [{"sku": "a"}], "note": "{body.id}", "none": null}',
)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("order {body.id} of {headers.Region}", "order 7 of eu"),
        ("{subject} {subject.1} {body.lines.0.sku}", "orders.eu.created eu a"),
        ("{body.lines} {body.none}", '[{"sku":"a"}] null'),
        ("{{body.id}} {headers.X.Y}", "{body.id} dotted"),
        ("{body.note}", "{body.id}"),
    ],
)
def test_paths_give_way_to_their_values_once(template: str, text: str) -> None:
    assert why_no_template(template) is None
    assert filled(template, EVENT) == text


@pytest.mark.parametrize(
    "path",
    [
        "body.none.x",
        "body.lines.1",
        "body.lines.-1",
        f"body.lines.{'1' * 5000}",
        "headers.region",
        "subject.9",
    ],
)
def test_what_is_not_there_is_named(path: str) -> None:
    with pytest.raises(PathMissing):
        EVENT.at(path)
    assert not EVENT.has(path)


@pytest.mark.parametrize("path", ["", "headers", "id", "body..x", "body.{x}", "body x", "bodyx"])
def test_only_paths_are_paths(path: str) -> None:
    assert "must be subject, headers.NAME or body" in (why_no_path(path) or "")


@pytest.mark.parametrize("template", ["{", "}", "{body.id", "{body.id!r}}", "{__class__}", "{}"])
def test_only_paths_are_in_braces(template: str) -> None:
    assert why_no_template(template) is not None


def test_a_body_that_is_no_json_is_text() -> None:
    assert Event.of("s", None, b"hello {x}").body == "hello {x}"
    with pytest.raises(PathMissing, match="neither JSON nor UTF-8 text"):
        Event.of("s", None, b"\xff")


def test_a_body_that_is_nested_too_deep_is_no_event() -> None:
    assert filled("{body}", Event.of("s", None, b"[" * 89 + b"]" * 89)) == "[" * 89 + "]" * 89
    with pytest.raises(PathMissing, match="must not be nested deeper than 90 levels"):
        Event.of("s", None, b"[" * 300 + b"]" * 300)


def test_a_short_template_makes_no_huge_message() -> None:
    large = Event.of("s", None, b'"%b"' % (b"x" * 1024 * 1024))
    assert len(filled("{body}" * 8, large)) == 8 * 1024 * 1024
    with pytest.raises(PathMissing, match="larger than 8388608 characters"):
        filled("{body}" * 9, large)
    few = {f"a{number}": "body" for number in range(7)}
    assert len(picked(few, large)) == 7
    with pytest.raises(PathMissing, match="larger than 8388608 characters"):
        picked({**few, "b": "body", "c": "body"}, large)
