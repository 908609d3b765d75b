"""Settings are read from environment variables."""

import pytest
from pydantic import Field, ValidationError, field_validator

from headrace.environment import EnvironmentSettings, variable


class Settings(EnvironmentSettings):
    """Settings of a service."""

    port: int = Field(default=8080, ge=0)
    names: list[str] = Field(default_factory=list)
    limit: int | None = None

    @field_validator("names", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return value.split(",") if isinstance(value, str) else value


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PORT", "NAMES", "LIMIT"):
        monkeypatch.delenv(f"HEADRACE_{name}", raising=False)


def test_a_field_has_its_default_unless_its_variable_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Settings().model_dump() == {"port": 8080, "names": [], "limit": None}
    monkeypatch.setenv("HEADRACE_PORT", "1")
    monkeypatch.setenv("HEADRACE_NAMES", "a,b")
    monkeypatch.setenv("HEADRACE_LIMIT", "-1")
    assert Settings().model_dump() == {"port": 1, "names": ["a", "b"], "limit": -1}


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PORT", "")
    assert Settings().port == 8080


def test_variables_may_be_in_lower_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("headrace_port", "2")
    assert Settings().port == 2


def test_arguments_take_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PORT", "3")
    assert Settings(port=4).port == 4


def test_variables_of_other_services_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_NOTHING_OF_OURS", "x")
    assert set(Settings().model_dump()) == {"port", "names", "limit"}


def test_an_error_names_the_field_and_never_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PORT", "se-cret")
    with pytest.raises(ValidationError) as raised:
        Settings()
    assert [error["loc"] for error in raised.value.errors()] == [("port",)]
    assert "se-cret" not in str(raised.value)
    assert variable("port") == "HEADRACE_PORT"
