"""``--json``: every command that prints records prints them as JSON lines."""

import json
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

WITHOUT = {
    "dev": "a service; DATA_DIR/dev.json lists its processes",
    "gateway": "a service",
    "worker": "a service",
    "task-state": "a service",
    "triggers serve": "a service",
    "completion": "prints a shell script",
    "asyncapi": "prints a JSON document",
    "config schema": "prints a JSON document",
    "nats-permissions": "prints nats-server's configuration",
    "tasks export": "prints a case, which is JSON lines",
    "memory show": "prints a value as it is stored",
}


def leaves(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(command)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from leaves(found, f"{name} {child}".strip())
        if not command.invoke_without_command:
            return
    yield name, command


def lines(*arguments: str) -> list[dict[str, Any]]:
    answer = CliRunner().invoke(import_module("headrace_cli.main").main, arguments)
    assert answer.exit_code == 0, answer.output
    return [json.loads(line) for line in answer.stdout.splitlines()]


def test_every_command_that_prints_records_takes_json() -> None:
    found = dict(leaves(import_module("headrace_cli.main").main))
    without = {
        name
        for name, command in found.items()
        if not any("--json" in option.opts for option in command.params)
    }
    assert len(found) > 25
    assert without == WITHOUT.keys()


def test_a_new_project_is_listed_file_by_file(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    created = lines("init", "--json", str(folder))
    assert {one["outcome"] for one in created} == {"created"}
    assert {Path(one["file"]).name for one in created} == {one.name for one in folder.iterdir()}
    again = lines("init", "--force", "--json", str(folder))
    assert {one["outcome"] for one in again} == {"kept"}


def test_a_credential_has_its_token_and_its_entry() -> None:
    [made] = lines("credential", "--owner", "ann", "--role", "reader", "--json")
    assert made["token"].startswith("hr_")
    assert made["credential"]["owner"] == "ann"
    assert made["credential"]["roles"] == ["reader"]
    printed = CliRunner().invoke(
        import_module("headrace_cli.main").main, ["credential", "--owner", "ann"]
    )
    [entry] = tomllib.loads(printed.stdout)["credential"]
    assert entry.keys() | {"roles"} == made["credential"].keys()


def test_settings_are_objects() -> None:
    settings = {(one["service"], one["variable"]): one for one in lines("settings", "--json")}
    port = settings["gateway", "HEADRACE_HTTP_PORT"]
    assert port.keys() == {"service", "group", "variable", "default", "meaning"}
    assert port["default"] == "8080"


def test_the_consoles_url_is_an_object_and_no_browser_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(click, "launch", lambda _: pytest.fail("a browser was started"))
    assert lines("open", "--json") == [{"url": "http://127.0.0.1:8080/console/"}]


def test_a_declared_agent_is_an_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    declared = "{type: a2a, url: 'http://127.0.0.1:9/', description: Far away.}"
    (tmp_path / "headrace.yaml").write_text(f"agents:\n  far: {declared}\n")
    [far] = lines("config", "check", "--json")
    assert far == {"name": "far", "description": "Far away."}
