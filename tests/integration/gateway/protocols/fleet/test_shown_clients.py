"""What the pages on schedules and triggers do with the Python client, at a gateway."""

import textwrap
from typing import Any

import httpx
import pytest

from headrace.client import Client
from tests.architecture.tree import ROOT
from tests.support.document import shown
from tests.support.scripted_fleet import ScriptedFleet


async def run(page: str, words: str, gateway: str) -> None:
    """Run the only block of a page with `words` at `gateway`, for one of its agents."""
    code = shown(ROOT / "docs" / page, words)
    code = code.replace("http://127.0.0.1:8080", gateway).replace('"shop"', '"ask"')
    names: dict[str, Any] = {"Client": Client}
    lines = textwrap.indent(code.replace(', token="…"', ""), "    ")
    exec(f"async def block():\n{lines}", names)  # noqa: S102
    await names["block"]()


async def test_the_block_on_schedules_makes_one(gateway: str, http: httpx.AsyncClient) -> None:
    await run("schedules.md", "client.schedules", gateway)
    made = (await http.get("/v1/schedules/nightly")).json()
    assert (made["agent"], made["answers"]) == ("ask", {"subject": "stock.counted"})
    await http.delete("/v1/schedules/nightly")


async def test_the_block_on_triggers_makes_lists_and_deletes_one(
    gateway: str, http: httpx.AsyncClient, fleet: ScriptedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fleet.working
    await run("triggers.md", "client.triggers", gateway)
    assert "['orders']" in capsys.readouterr().out
    assert (await http.get("/v1/triggers/orders")).status_code == 404
