"""Tests run on containers where those are asked for and there is an engine; a run says on what."""

import pytest

from tests.conftest import pytest_report_header
from tests.support import containers
from tests.support.containers import NoEngine

NOWHERE = "unix:///nowhere/docker.sock"


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)
    return monkeypatch


@pytest.mark.parametrize("requested", ["", "embedded"])
def test_servers_are_embedded_unless_something_else_is_requested(
    no_engine: pytest.MonkeyPatch, requested: str
) -> None:
    no_engine.setenv("HEADRACE_TEST_SERVERS", requested)
    assert containers.choose(["nats"]) == "embedded"
    assert not containers.are_wanted()


def test_without_an_engine_auto_is_embedded_and_gives_the_reason(
    no_engine: pytest.MonkeyPatch,
) -> None:
    no_engine.setenv("HEADRACE_TEST_SERVERS", "auto")
    assert containers.choose(["nats"]).startswith("embedded (no container engine")
    assert not containers.are_wanted()


def test_containers_need_an_engine(no_engine: pytest.MonkeyPatch) -> None:
    no_engine.setenv("HEADRACE_TEST_SERVERS", "containers")
    with pytest.raises(NoEngine, match="no container engine"):
        containers.choose(["nats"])


def test_anything_else_is_refused(no_engine: pytest.MonkeyPatch) -> None:
    no_engine.setenv("HEADRACE_TEST_SERVERS", "docker")
    with pytest.raises(ValueError, match="embedded, containers or auto"):
        containers.choose(["nats"])


def test_the_header_states_what_the_tests_run_on(pytestconfig: pytest.Config) -> None:
    output = pytest_report_header(pytestconfig)
    assert output.startswith(
        "servers: containers" if containers.are_wanted() else "servers: embedded"
    )
