"""What files and code declare besides agents, for `headrace schedules apply` and `headrace dev`."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from headrace_cli.declarations import declared_in
from headrace_cli.dev.declarations import AgentInCode, apply_code, apply_file
from headrace_cli.failures import CannotStart
from headrace_worker.config import read
from tests.architecture.tree import ROOT
from tests.support.document import blocks
from tests.support.fake_gateway import ScriptedResponse, answering
from tests.unit.cli.test_client_commands import headrace

PAGE = ROOT / "docs" / "schedules.md"
PATH = "/v1/schedules/nightly"
STORED = {
    "name": "nightly",
    "agent": "shop",
    "message": [{"text": "count the stock"}],
    "at": None,
    "every": None,
    "cron": "0 2 * * *",
    "timeZone": "Europe/Paris",
    "state": "active",
    "ended": None,
    "next": None,
}
CODE = """\
from headrace import agent, schedule

print("{}")

@schedule("count the stock", name="nightly", cron="0 2 * * *", time_zone="Europe/Paris")
@agent
async def shop(ctx):
    yield "counted"

@agent
async def stock(ctx):
    yield "none"
"""
SENT = {
    "agent": "shop",
    "message": "count the stock",
    "cron": "0 2 * * *",
    "timeZone": "Europe/Paris",
}


@pytest.fixture
def in_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the current folder, called counting."""
    file = tmp_path / "counting.py"
    file.write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "counting", sys)  # so that it is gone after the test
    monkeypatch.delitem(sys.modules, "counting")
    return file


@pytest.fixture
def documented(tmp_path: Path) -> Path:
    """The documented file."""
    [block] = blocks(PAGE, "yaml")
    file = tmp_path / "headrace.yaml"
    file.write_text(block.code)
    return file


def test_the_documented_file_is_one_that_workers_read(documented: Path) -> None:
    configuration, _ = read(documented, {})
    assert [one.name for one in configuration.schedules] == ["nightly"]


def test_apply_stores_each_schedule_of_the_file(documented: Path) -> None:
    with answering(**{PATH: ScriptedResponse(body=STORED)}) as gateway:
        answer = headrace(gateway, "schedules", "apply", "--json", str(documented))
    assert json.loads(answer.output) == STORED
    [request] = gateway.asked
    assert (request.method, request.body) == ("PUT", SENT)


@pytest.mark.usefixtures("in_code")
def test_apply_stores_each_schedule_of_agents_in_code() -> None:
    with answering(**{PATH: ScriptedResponse(body=STORED)}) as gateway:
        answer = headrace(gateway, "schedules", "apply", "counting:shop")
    assert answer.exit_code == 0, answer.output
    [request] = gateway.asked
    assert (request.method, request.body) == ("PUT", SENT)


@pytest.mark.usefixtures("in_code")
@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("counting:stock", "the agents of counting:stock declare no schedules"),
        ("counting:none", "module counting has no attribute none"),
        ("counting:1", "agents must be given as MODULE:ATTR, not 'counting:1'"),
        ("nowhere.yaml", "No such file or directory: 'nowhere.yaml'"),
    ],
)
def test_a_source_without_schedules_is_refused(source: str, complaint: str) -> None:
    with answering() as gateway:
        answer = headrace(gateway, "schedules", "apply", source)
    assert (answer.exit_code, gateway.asked) == (1, [])
    assert answer.output.endswith(f"{complaint}\n")


def test_two_schedules_of_one_name_are_refused_before_either_is_stored(in_code: Path) -> None:
    in_code.write_text(
        f"{CODE}again = schedule('count', name='nightly', every='1h')(stock)\n"
        "agents = [shop, again]\n"
    )
    with answering() as gateway:
        answer = headrace(gateway, "schedules", "apply", "counting:agents")
    assert (answer.exit_code, gateway.asked) == (1, [])
    assert answer.output.endswith("two schedules are named 'nightly'; names must be unique\n")


@pytest.mark.usefixtures("in_code")
def test_the_stack_applies_what_its_agents_declare_under_the_names_of_their_file() -> None:
    with answering(**{PATH: ScriptedResponse(body=STORED)}) as gateway:
        lines = asyncio.run(apply_code(gateway.url, [AgentInCode("counting:shop", "till")], 60))
    [request] = gateway.asked
    assert (lines, request.body) == (["schedules nightly"], SENT | {"agent": "till"})


def test_code_that_cannot_be_imported_does_not_end_the_stack(in_code: Path) -> None:
    in_code.write_text("from headrace import on\non('orders')(None)\n")
    with answering() as gateway:
        lines = asyncio.run(apply_code(gateway.url, [AgentInCode("counting:shop")], 60))
    complaint = "@on must stand above @agent (counting.py:2)"
    assert lines == [f"triggers and schedules of the agents: {complaint}"]


def test_a_time_in_a_file_is_sent_as_it_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "headrace.yaml"
    file.write_text("schedules: [{name: nightly, agent: shop, at: 2030-01-31T09:00:00+01:00}]")
    with answering(**{PATH: ScriptedResponse(body=STORED)}) as gateway:
        headrace(gateway, "schedules", "apply", str(file))
    [request] = gateway.asked
    assert (request.body or {})["at"] == "2030-01-31T09:00:00+01:00"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agents: {}", "headrace.yaml declares no schedules\n"),
        ("schedules: []", "headrace.yaml declares no schedules\n"),
        ("schedules: {}", "schedules: must be a list of schedules\n"),
        ("schedules: [1]", "schedules: must be a list of schedules\n"),
        ("- 1", "schedules: must be a list of schedules\n"),
    ],
)
def test_a_file_without_schedules_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "headrace.yaml"
    file.write_text(text)
    with answering() as gateway:
        answer = headrace(gateway, "schedules", "apply", str(file))
    assert (answer.exit_code, gateway.asked) == (1, [])
    assert answer.output.endswith(message)


def test_what_the_gateway_refuses_does_not_end_the_stack(documented: Path) -> None:
    triggers = "triggers: [{name: orders, agent: shop, subject: orders.*}]\n"
    documented.write_text(documented.read_text() + triggers)
    refused = ScriptedResponse(400, {"error": {"message": "subject: not yours"}})
    script = {"/v1/triggers/orders": refused, PATH: ScriptedResponse(body=STORED)}
    with answering(**script) as gateway:
        lines = asyncio.run(apply_file(gateway.url, documented))
    assert lines[0].startswith("headrace.yaml: triggers: orders: ")
    assert "subject: not yours" in lines[0]
    assert lines[1:] == ["schedules nightly"]


def test_code_that_blocks_when_it_is_imported_does_not_hold_up_the_stack(in_code: Path) -> None:
    in_code.write_text("import time\ntime.sleep(3600)\n")
    with answering() as gateway:
        lines = asyncio.run(apply_code(gateway.url, [AgentInCode("counting:shop")], 1))
    assert lines == ["triggers and schedules of the agents: not imported in 1 s"]


_DOUBLED = "\n".join(
    ["a0: &a0 {x: y}", *(f"a{n}: &a{n} {{l: *a{n - 1}, r: *a{n - 1}}}" for n in range(1, 30))]
)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (_DOUBLED + "\nschedules: [*a29]", "has more than 100000 values or contains itself"),
        ("schedules: [&a {x: *a}]", "has more than 100000 values or contains itself"),
        ("schedules: " + "[" * 5000 + "]" * 5000, "is nested too deeply"),
    ],
    ids=["aliases", "itself", "deep"],
)
def test_a_file_that_becomes_much_more_than_it_is_is_refused(
    tmp_path: Path, content: str, why: str
) -> None:
    """What it declares is sent as JSON: 30 lines of aliases would fill the memory."""
    file = tmp_path / "schedules.yaml"
    file.write_text(content)
    with pytest.raises(CannotStart, match=why):
        declared_in(file, "schedules")
