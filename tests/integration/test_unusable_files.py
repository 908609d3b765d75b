"""Each file that a service reads at its start: a mistake ends it with 78, and names the place."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import headrace_gateway.main
import headrace_task_state.main
import headrace_triggers.main
import headrace_worker.main
from headrace import log_lines

NOWHERE = "nats://127.0.0.1:1"

SERVICES: dict[str, Callable[[], int]] = {
    "gateway": headrace_gateway.main.run,
    "task-state": headrace_task_state.main.run,
    "triggers": headrace_triggers.main.run,
    "worker": lambda: headrace_worker.main.run("headrace.demo:agents"),
}
QUOTA = "[[quota]]\nname = 'day'\n"
ISSUER = (
    "[jwt]\nissuer = 'i'\naudience = 'a'\nalgorithms = ['ES256']\nkeys = 'keys.json'\n"
    "[[credential]]\nowner = ''\n"
)
KEYS = ISSUER.partition("[[")[0]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No servers; logging of this process stays as it is."""
    monkeypatch.setattr(log_lines, "configure", lambda _: None)
    monkeypatch.setattr(log_lines, "configure_bare", lambda **_: None)
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        monkeypatch.delenv(name)
    for name, value in (
        ("NATS_URL", NOWHERE),
        ("REDIS_URL", "redis://127.0.0.1:1/0"),
        ("HTTP_PORT", "0"),
        ("GRPC_PORT", "0"),
        ("STARTUP_TIMEOUT", "0.2"),
    ):
        monkeypatch.setenv(f"HEADRACE_{name}", value)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines that were logged as errors."""
    return [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]


@pytest.mark.parametrize(
    "case",
    [
        ("gateway triggers", "QUOTAS", None, "No such file"),
        ("gateway triggers", "QUOTAS", "= 1", "line 1"),
        ("gateway triggers", "QUOTAS", "[[quota]]\nrun = 1", "quota.0.name: quota.0.run: "),
        ("gateway triggers", "QUOTAS", QUOTA, "quota.0: needs at least one of tokens"),
        ("gateway triggers", "QUOTAS", f"{QUOTA}runs = -1", "quota.0.runs: greater than or equal"),
        ("gateway", "CREDENTIALS", None, "No such file"),
        ("gateway", "CREDENTIALS", "[[credential]", "line 1"),
        ("gateway", "CREDENTIALS", ISSUER, "credential.0.sha256: credential.0.owner: not be empty"),
        ("gateway", "CREDENTIALS", KEYS, "keys.json: No such file"),
        ("worker", "PRICES", None, "No such file"),
        ("worker", "PRICES", "[[price]", "line 1"),
        ("worker", "PRICES", "[[price]]\nmodel = ''", "price.0.model: price.0.input: required"),
        ("gateway task-state", "SIGNING_KEYS", None, "No such file"),
        ("gateway task-state", "SIGNING_KEYS", "no key", "PEM"),
        *(("gateway task-state triggers worker", *one) for one in (
            ("NATS_CREDS_FILE", None, "No such file"),
            ("NATS_CREDS_FILE", "none", "HEADRACE_NATS_CREDS_FILE: no JWT with an NKey seed"),
            ("NATS_NKEY_FILE", "none", "HEADRACE_NATS_NKEY_FILE: not an NKey seed"),
            ("NATS_CA_FILE", "none", "HEADRACE_NATS_CA_FILE: no PEM certificate"),
            ("NATS_CA_FILE", "", "HEADRACE_NATS_CA_FILE: no PEM certificate"),
        )),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_ends_a_start_for_good_and_names_file_field_and_rule(
    case: tuple[str, str, str | None, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    services, setting, content, rules = case
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv(f"HEADRACE_{setting}", str(file))
    started = {service: SERVICES[service]() for service in services.split()}
    assert set(started.values()) == {os.EX_CONFIG}, started
    lines = errors(caplog)
    assert len(lines) == len(started)
    for line in lines:
        assert str(tmp_path) in line
        assert all(rule in line for rule in rules.split(": ")), line
        assert "Value error" not in line


@pytest.mark.parametrize("value", ["10.0.0.0/99", "[::1"])
def test_a_destination_of_webhooks_that_is_none_ends_a_start_for_good(
    value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HEADRACE_PUSH_ALLOW", f"hooks.test,{value}")
    assert SERVICES["task-state"]() == os.EX_CONFIG
    [line] = errors(caplog)
    assert line.startswith("HEADRACE_PUSH_ALLOW: ")
    assert value in line
