"""The bus contract as a document."""

import os
from importlib import import_module

import pytest
from click.testing import CliRunner, Result

from headrace_cli import services


def asyncapi() -> Result:
    return CliRunner().invoke(import_module("headrace_cli.main").main, ["asyncapi"])


def test_without_faststream_it_states_which_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(_: str) -> None:
        raise ModuleNotFoundError("no faststream", name="faststream")

    monkeypatch.setattr(services, "import_module", missing)
    answer = asyncapi()
    assert answer.exit_code == os.EX_CONFIG
    assert answer.output.endswith("faststream: pip install 'headrace[task-state]'\n")
