"""Handlers with the same parameters share a model; any other has its own."""

import inspect
from typing import Any

import pytest
from fast_depends.library.serializer import OptionItem, Serializer
from pydantic import ValidationError

from headrace.jetstream.broker import HandlerModels


def model(of: Any, default: Any = ..., name: str = "ask", returned: Any = bytes) -> Serializer:  # noqa: ANN401  # annotations
    """Return the model of a handler's only parameter, as a broker of its own asks for it."""
    options = [OptionItem("query", of, default_value=default)]
    return HandlerModels()(name=name, options=options, response_type=returned)


def test_handlers_with_the_same_parameters_share_a_model() -> None:
    assert model(int) is model(int)


@pytest.mark.parametrize(
    "other",
    [
        model(str),
        model(int, 1),
        model(int, name="other"),
        model(int, returned=inspect.Parameter.empty),
    ],
    ids=["type", "default", "name", "returned"],
)
def test_any_other_has_its_own(other: Serializer) -> None:
    assert other is not model(int)


def test_it_validates_what_comes_and_what_is_returned() -> None:
    assert model(int)({"query": "7"}) == {"query": 7}
    with pytest.raises(ValidationError):
        model(int)({"query": "seven"})
    with pytest.raises(ValidationError):
        model(int).response(object())
