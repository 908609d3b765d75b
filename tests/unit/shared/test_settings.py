"""Settings that all services have: what they accept, and what is said of the others."""

import pytest
from pydantic import ValidationError

from headrace.settings import BusSettings


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("log_level", "'debug', 'info', 'warning' or 'error'"), ("log_format", "'text' or 'json'")],
)
def test_a_word_that_is_none_of_a_few_is_answered_with_those(name: str, allowed: str) -> None:
    with pytest.raises(ValidationError) as refused:
        BusSettings.model_validate({name: "loud"})
    [error] = refused.value.errors()
    assert error["msg"] == f"Input should be {allowed}"


def test_such_a_word_is_read_in_any_case() -> None:
    found = BusSettings.model_validate({"log_level": "Warning", "log_format": "JSON"})
    assert (found.log_level, found.log_format) == ("warning", "json")
