"""What the command line does for a service before it runs."""

import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from headrace_cli import services

_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR2)
    yield
    signal.signal(signal.SIGUSR2, before)


def _plugins_disabled(monkeypatch: pytest.MonkeyPatch, service: str) -> tuple[str | None, ...]:
    """Return the variable's value while a service is imported, and while it runs."""
    seen: list[str | None] = []

    def run() -> int:
        seen.append(os.environ.get(_PLUGINS))
        return 0

    def module_of(_service: str, _name: str) -> SimpleNamespace:
        seen.append(os.environ.get(_PLUGINS))
        return SimpleNamespace(run=run)

    monkeypatch.setattr(services, "module_of", module_of)
    with pytest.raises(SystemExit):
        services.run_service(service, "package")
    return tuple(seen)


@pytest.mark.parametrize(
    ("service", "expected"),
    [("worker", ("true", None)), ("gateway", ("true", "true")), ("task-state", ("true", "true"))],
)
def test_pydantic_looks_for_plugins_for_agents_alone(
    monkeypatch: pytest.MonkeyPatch, service: str, expected: tuple[str | None, ...]
) -> None:
    monkeypatch.setenv(_PLUGINS, "")  # restores it
    monkeypatch.delenv(_PLUGINS)
    assert _plugins_disabled(monkeypatch, service) == expected


def test_a_given_list_of_disabled_plugins_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_PLUGINS, "logfire-plugin")
    assert _plugins_disabled(monkeypatch, "worker") == ("logfire-plugin", "logfire-plugin")
