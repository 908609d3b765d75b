"""`headrace doctor` on real servers: what is missing is named with its remedy."""

import asyncio
import json
import re
import secrets
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.directory import Announcer
from headrace.jetstream.connection import Bus
from headrace.model.agent_card import AgentCard, Caution
from headrace.model.messages import DeadLetter
from headrace.settings import BusSettings
from headrace.tasks.dead_letters import write_letter
from headrace_cli.main import main
from tests.support.servers import NatsProcess, ValkeyProcess, ports

type Seen = dict[str, list[str]]


@pytest.fixture(autouse=True)
def own_names(
    monkeypatch: pytest.MonkeyPatch,
    nats_server: NatsProcess,
    valkey: ValkeyProcess,
    tmp_path: Path,
) -> BusSettings:
    name = f"own{secrets.token_hex(4)}"
    given = {
        "nats_url": nats_server.url,
        "redis_url": valkey.url,
        "prefix": name,
        "stream_prefix": name,
        "data_dir": str(tmp_path),
    }
    for setting, value in given.items():
        monkeypatch.setenv(f"HEADRACE_{setting.upper()}", value)
    return BusSettings()


def doctor() -> tuple[int, Seen]:
    """Return the exit code, and the levels by subject."""
    result = CliRunner().invoke(main, ["doctor", "--json"])
    seen: Seen = {}
    for line in result.stdout.splitlines():
        finding = json.loads(line)
        seen.setdefault(finding["subject"], []).append(finding["level"])
    return result.exit_code, seen


async def test_missing_streams_are_named_before_anything_else() -> None:
    code, seen = await asyncio.to_thread(doctor)
    assert code == 1
    assert set(seen["streams"]) == {"problem"}
    assert "agents" not in seen
    assert seen["Redis"] == ["ok", "ok"]


async def test_a_fleet_without_services_has_streams_and_nothing_that_answers(
    own_names: BusSettings,
) -> None:
    bus = Bus(own_names)
    await bus.connect("test")
    try:
        letter = DeadLetter(reason="undecodable", subject="x", at="2026-01-01T00:00:00Z")
        await write_letter(bus, letter)
        code, seen = await asyncio.to_thread(doctor)
        server = (await asyncio.to_thread(CliRunner().invoke, main, ["doctor"])).stdout
    finally:
        await bus.close()
    assert code == 1
    assert seen["settings"] == seen["streams"] == ["ok"]
    assert seen["NATS"] == ["ok"] * 3
    assert re.search(r"NATS: only JetStream can publish on own\w+\.live\.>", server)
    assert re.search(r"NATS: version \d+\.\d+\.\d+ answered", server)
    assert seen["task state"] == ["problem"]
    assert seen["agents"] == seen["dead letters"] == ["warning"]


async def test_streams_that_differ_hide_nothing_of_the_services(
    own_names: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = Bus(own_names)
    await bus.connect("test")
    await bus.close()
    monkeypatch.setenv("HEADRACE_REPLICAS", "3")
    code, seen = await asyncio.to_thread(doctor)
    assert (code, set(seen["streams"])) == (1, {"problem"})
    assert (seen["task state"], seen["agents"]) == (["problem"], ["warning"])


async def test_event_streams_that_the_fleet_has_not_are_named_and_hide_nothing(
    own_names: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = Bus(own_names)
    await bus.connect("test")
    await bus.close()
    monkeypatch.setenv("HEADRACE_EVENT_STREAMS", str(own_names.event_streams + 2))
    code, seen = await asyncio.to_thread(doctor)
    assert (code, seen["NATS"]) == (1, ["ok"] * 3)
    assert seen["streams"] == ["problem"] * 2
    assert (seen["task state"], seen["agents"]) == (["problem"], ["warning"])


async def test_an_invalid_setting_of_one_service_hides_nothing_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_HTTP_PORT", "many")
    code, seen = await asyncio.to_thread(doctor)
    assert (code, seen["settings"]) == (1, ["problem"])
    assert set(seen["streams"]) == {"problem"}
    assert (seen["NATS"][0], seen["Redis"][0]) == ("ok", "ok")
    monkeypatch.setenv("HEADRACE_REPLICAS", "many")
    shown = (await asyncio.to_thread(CliRunner().invoke, main, ["doctor"])).stdout
    assert "(correct it: no service starts)" in shown
    assert "(correct it: headrace gateway does not start)" in shown
    assert "NATS:" not in shown


def test_servers_that_are_away_are_named_with_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    nats, redis = ports.pick(), ports.pick()
    monkeypatch.setenv("HEADRACE_NATS_URL", f"nats://127.0.0.1:{nats}")
    monkeypatch.setenv("HEADRACE_REDIS_URL", f"redis://127.0.0.1:{redis}")
    monkeypatch.setenv("HEADRACE_STARTUP_TIMEOUT", "1")
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    problems = [line for line in result.stdout.splitlines() if line.startswith("problem")]
    assert [line.split()[1] for line in problems] == ["NATS:", "Redis:"]
    assert "HEADRACE_NATS_URL" in problems[0]
    assert "HEADRACE_REDIS_URL" in problems[1]


async def test_what_operators_should_know_of_an_agent_is_named(own_names: BusSettings) -> None:
    caution = Caution(text="it keeps its memory in one process", remedy="share a database")
    bus = Bus(own_names)
    await bus.connect("test")
    try:
        await Announcer(bus, "worker-a").announce(AgentCard(name="desk", cautions=[caution]))
        shown = (await asyncio.to_thread(CliRunner().invoke, main, ["doctor"])).stdout
    finally:
        await bus.close()
    assert "warning agents: desk: it keeps its memory in one process (share a database)" in shown
