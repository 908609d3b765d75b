"""Flags and variables of ``headrace dev`` become its settings."""

import os
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace_cli.dev.settings import DevSettings, drop_ineffective_settings, load
from headrace_cli.failures import CannotStart


def test_dev_hands_its_flags_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[DevSettings]()

    async def run(settings: DevSettings, _: Path) -> None:
        seen.append(settings)

    monkeypatch.setattr("headrace_cli.dev.stack.run", run)
    monkeypatch.setenv("HEADRACE_WORKERS", "7")
    monkeypatch.setenv("HEADRACE_GATEWAYS", "7")
    main = import_module("headrace_cli.main").main
    flags = ["--gateways", "2", "--no-restart", "--no-reload", "--ephemeral"]
    flags += ["--agents", "shop:sell", "--agents", "shop:buy,desk:ask"]
    assert CliRunner().invoke(main, ["dev", *flags]).exit_code == 0
    [settings] = seen
    assert (settings.gateways, settings.workers) == (2, 7)
    assert settings.ephemeral
    assert settings.agents == "shop:sell,shop:buy,desk:ask"
    assert not settings.restart
    assert not settings.reload


def test_misspelt_settings_are_named_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADRACE_WORKRES", "7")
    drop_ineffective_settings()
    assert capsys.readouterr().err == (
        "HEADRACE_WORKRES is not a setting; did you mean HEADRACE_WORKERS?\n"
    )
    assert "HEADRACE_WORKRES" not in os.environ


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HTTP_PORT", "")
    monkeypatch.setenv("HEADRACE_NATS_URL", "")
    assert load().http_port == 8080
    assert load().nats_url == ""


def test_a_value_that_does_not_fit_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HTTP_PORT", "many")
    with pytest.raises(CannotStart, match="HEADRACE_HTTP_PORT: Input should be a valid integer"):
        load()


def test_any_http_port_means_any_grpc_port_unless_one_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert load(http_port=0).grpc_port == 0
    monkeypatch.setenv("HEADRACE_GRPC_PORT", "50052")
    assert load(http_port=0).grpc_port == 50052
