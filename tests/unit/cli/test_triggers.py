"""`headrace triggers`, with the file of the documentation."""

import json
from pathlib import Path

from headrace_worker.config import read
from tests.architecture.tree import ROOT
from tests.support.document import blocks
from tests.support.fake_gateway import ScriptedResponse, answering
from tests.unit.cli.test_client_commands import headrace

PAGE = ROOT / "docs" / "triggers.md"
PATH = "/v1/triggers"
KEPT = {"name": "orders", "agent": "shop", "subject": "orders.*", "owner": "ann", "paused": True}


def documented(folder: Path) -> Path:
    block, *_ = blocks(PAGE, "yaml")
    file = folder / "headrace.yaml"
    file.write_text(block.code)
    return file


def test_the_documented_file_is_one_that_workers_read(tmp_path: Path) -> None:
    configuration, _ = read(documented(tmp_path), {})
    assert [one.name for one in configuration.triggers] == ["large-orders"]


def test_apply_puts_each_trigger_of_the_file(tmp_path: Path) -> None:
    put = ScriptedResponse(body=KEPT)
    with answering(**{f"{PATH}/large-orders": put}) as gateway:
        answer = headrace(gateway, "triggers", "apply", str(documented(tmp_path)))
    assert answer.output.splitlines() == [
        "NAME    AGENT  SUBJECT   STREAM  OWNER  STATE",
        "orders  shop   orders.*          ann    paused",
    ]
    [request] = gateway.asked
    sent = request.body or {}
    assert (request.method, sent["agent"], sent["stream"]) == ("PUT", "shop", "ORDERS")
    assert "name" not in sent


def test_a_trigger_that_fails_is_listed_with_the_reason() -> None:
    failing = {**KEPT, "paused": False, "problem": {"at": "-", "reason": "no such stream"}}
    with answering(**{PATH: ScriptedResponse(body={"triggers": [failing]})}) as gateway:
        answer = headrace(gateway, "triggers", "list")
    assert answer.output.splitlines()[1].endswith("failing: no such stream")


def test_a_file_without_triggers_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "headrace.yaml"
    file.write_text("agents: {}\n")
    with answering() as gateway:
        answer = headrace(gateway, "triggers", "apply", str(file))
    assert answer.exit_code == 1
    assert answer.output.endswith("headrace.yaml declares no triggers\n")
    assert gateway.asked == []


def test_triggers_are_listed_paused_resumed_and_deleted() -> None:
    script = {
        PATH: ScriptedResponse(body={"triggers": [KEPT]}),
        f"{PATH}/orders:pause": ScriptedResponse(body=KEPT),
        f"{PATH}/orders:resume": ScriptedResponse(body=KEPT | {"paused": False}),
        f"{PATH}/orders": ScriptedResponse(body={"deleted": "orders"}),
    }
    with answering(**script) as gateway:
        listed = headrace(gateway, "triggers", "list", "--json")
        paused = headrace(gateway, "triggers", "pause", "orders")
        resumed = headrace(gateway, "triggers", "resume", "orders")
        deleted = headrace(gateway, "triggers", "delete", "orders")
    assert json.loads(listed.output) == KEPT
    assert [one.output.split()[-1] for one in (paused, resumed)] == ["paused", "active"]
    assert deleted.output == "deleted orders\n"
    assert [one.method for one in gateway.asked] == ["GET", "POST", "POST", "DELETE"]


def test_dead_letters_are_listed_and_shown() -> None:
    row = {"id": 17, "agent": "shop", "at": "2030-01-01T00:00:00Z", "reason": "body.id is missing"}
    script = {
        f"{PATH}/orders/dead-letters": ScriptedResponse(body={"letters": [row], "next": None}),
        f"{PATH}/orders/dead-letters/17": ScriptedResponse(body=row | {"body": "{}"}),
    }
    with answering(**script) as gateway:
        listed = headrace(gateway, "triggers", "dead-letters", "orders")
        shown = headrace(gateway, "triggers", "dead-letters", "orders", "17")
    assert listed.output.splitlines()[1].split() == " ".join(map(str, row.values())).split()
    assert shown.output == "body.id is missing: {}\n"
