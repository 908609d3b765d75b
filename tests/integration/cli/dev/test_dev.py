"""`headrace dev` with services that stand in: what it does with processes, ports and data."""

import json
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

import tests.support.stand_ins
from headrace_cli.dev import dev_file
from headrace_cli.dev.ports import Ports
from headrace_cli.failures import CannotStart
from tests.support.pids import living
from tests.support.resuming_sizes import sized
from tests.support.servers import NatsProcess, ValkeyProcess, ports
from tests.support.stack import Stack
from tests.support.waiting import until

STAND_INS = str(Path(tests.support.stand_ins.__file__).parent)

type MakeStack = Callable[..., Stack]


@pytest.fixture
def make_stack(tmp_path: Path) -> Iterator[MakeStack]:
    """Makes stacks of stand-ins, all on one folder; ends what a test leaves of them."""
    made = list[Stack]()

    def make(*arguments: str, agents: str = "json:loads", **environment: str) -> Stack:
        stack = Stack(
            tmp_path,
            agents=agents,
            arguments=arguments or ("--port", "0"),
            environment={"PYTHONPATH": STAND_INS} | environment,
        )
        made.append(stack)
        return stack

    yield make
    for stack in made:
        if stack.is_launched:
            stack.close()


def lines_of_failure(stack: Stack) -> list[str]:
    """Launch `stack`, expect it to give up, and return what it says about that."""
    assert stack.launch().wait() != 0
    return [line for line in stack.log().splitlines() if line.startswith("Error: ")]


def test_reports_ready_when_dev_json_names_every_process(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": STAND_INS, "HEADRACE_AGENTS": "json:loads"}
    with Stack(tmp_path, gateways=2, workers=3, task_states=2, environment=environment) as stack:
        named = {(p["role"], p["index"]) for p in stack.processes()}
        expected = {"gateway": 2, "worker": 3, "task-state": 2, "nats": 1, "redis": 1}
        assert named == {(role, i) for role, count in expected.items() for i in range(count)}
        assert len(living(stack.pids())) == sum(expected.values())
        assert stack.url == stack.gateways[0]
        assert [urlopen(f"{url}/readyz").status for url in stack.gateways] == [200, 200]  # noqa: S310
        without_port = {p["role"] for p in stack.processes() if p["port"] is None}
        assert without_port == {"worker", "task-state"}
        servers = {p["role"]: p["port"] for p in stack.processes()}
        assert stack.dev()["nats_url"] == f"nats://127.0.0.1:{servers['nats']}"
        assert stack.dev()["redis_url"] == f"redis://127.0.0.1:{servers['redis']}/0"


def test_without_prometheus_it_reports_it_and_lists_what_to_scrape(make_stack: MakeStack) -> None:
    stack = make_stack("--port", "0", "--observe", PATH="/nowhere").start()
    file = stack.data_dir / "prometheus" / "targets.json"
    until(lambda: any(str(file) in line for line in stack.said), "the file is named")
    [lines] = [line for line in stack.said if str(file) in line]
    assert lines.startswith("Prometheus is not installed (on Debian: apt-get install prometheus)")
    jobs = [group["labels"]["job"] for group in json.loads(file.read_text())]
    assert sorted(jobs) == ["gateway", "task-state", "worker"]


def two_free_ports() -> int:
    """Return the first of two adjacent ports, below the range in which every test picks its own."""
    for first in random.SystemRandom().sample(range(18_000, 20_000, 2), 20):
        with suppress(CannotStart):
            return Ports().claim(first, 2, "another try")[0]
    raise AssertionError("no two ports are free")


def test_gateways_listen_from_the_given_port_on(make_stack: MakeStack) -> None:
    first = two_free_ports()
    stack = make_stack("--port", str(first), "--gateways", "2", HEADRACE_GRPC_PORT="0").start()
    assert stack.gateways == [f"http://127.0.0.1:{first + i}" for i in range(2)]


def test_the_environment_counts_and_a_flag_beats_it(make_stack: MakeStack) -> None:
    counts = {"HEADRACE_GATEWAYS": "2", "HEADRACE_WORKERS": "2", "HEADRACE_HTTP_PORT": "1"}
    stack = make_stack("--port", "0", "--workers", "1", **counts).start()
    assert len(stack.pids("gateway")) == 2
    assert len(stack.pids("worker")) == 1


@pytest.mark.parametrize("role", ["gateway", "worker", "task-state", "nats", "redis"])
def test_a_child_that_died_comes_back(make_stack: MakeStack, role: dev_file.Role) -> None:
    stack = make_stack().start()
    before = stack.processes(role)[0]
    assert stack.kill(role) == before["pid"]
    pid = stack.until_restarted(role, 0, before["pid"])
    assert living([pid]) == [pid]
    assert stack.processes(role)[0]["port"] == before["port"]
    assert len(stack.processes()) == 5


def test_a_child_that_died_stays_dead_with_no_restart(make_stack: MakeStack) -> None:
    stack = make_stack("--port", "0", "--no-restart").start()
    stack.kill("worker")
    until(lambda: not stack.pids("worker"), "dev.json drops the dead worker")
    time.sleep(1.5)  # Longer than a restart takes.
    assert stack.pids("worker") == []
    assert stack.exit_code() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_everything(make_stack: MakeStack, number: int) -> None:
    stack = make_stack().start()
    pids = stack.pids()
    assert stack.stop(number) == 0
    assert living(pids) == []


def test_ends_within_5_s_though_children_ignore_sigterm_or_are_frozen(
    make_stack: MakeStack, tmp_path: Path
) -> None:
    notes = tmp_path / "grandchild"
    stack = make_stack(STAND_IN_IGNORES_SIGTERM=str(notes)).start()
    until(lambda: notes.exists() and notes.read_text(), "the worker has a child")
    pids = [*stack.pids(), int(notes.read_text())]
    stack.kill("gateway", 0, signal.SIGSTOP)
    stack.kill("nats", 0, signal.SIGSTOP)
    started = time.monotonic()
    stack.stop()
    assert time.monotonic() - started < sized(30, 5)
    until(lambda: not living(pids), "no process is left")


def test_a_signal_before_it_is_ready_ends_everything(make_stack: MakeStack) -> None:
    stack = make_stack().launch()
    until(lambda: "runs json:loads" in stack.log(), "the worker is up")
    until(lambda: dev_file.read(stack.data_dir), "the processes are named")
    pids = stack.pids()
    assert stack.stop() == 0
    assert living(pids) == []


def test_a_taken_port_is_one_clear_line_and_starts_nothing(make_stack: MakeStack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        stack = make_stack("--port", str(port), HEADRACE_GRPC_PORT="0")
        [line] = lines_of_failure(stack)
        assert line.startswith(
            f"Error: port {port} on 127.0.0.1 is taken: choose another with --port"
        )
        assert dev_file.read(stack.data_dir) is None


def test_a_taken_grpc_port_is_one_clear_line(make_stack: MakeStack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        stack = make_stack("--port", "0", HEADRACE_GRPC_PORT=str(port))
        assert lines_of_failure(stack) == [
            f"Error: port {port} on 127.0.0.1 is taken: choose another with HEADRACE_GRPC_PORT"
        ]


def test_a_second_instance_on_the_same_data_is_one_clear_line(make_stack: MakeStack) -> None:
    first = make_stack().start()
    [line] = lines_of_failure(make_stack("--port", "0", "--ephemeral"))
    assert line.startswith(f"Error: another headrace dev (pid {first.pid}) runs on ")
    assert len(living(first.pids())) == 5


def test_a_missing_module_is_one_clear_line_and_ends_everything(make_stack: MakeStack) -> None:
    stack = make_stack(agents="no_such_module:agents")
    assert lines_of_failure(stack) == ["Error: no module named no_such_module"]
    assert living(stack.pids()) == []


def test_a_target_that_is_none_is_one_clear_line(make_stack: MakeStack) -> None:
    [line] = lines_of_failure(make_stack(agents="no_target"))
    assert "MODULE:ATTR" in line


def test_a_child_that_never_stays_up_ends_the_start(make_stack: MakeStack, tmp_path: Path) -> None:
    (tmp_path / "broken" / "headrace_gateway").mkdir(parents=True)
    (tmp_path / "broken" / "headrace_gateway" / "__init__.py").touch()
    (tmp_path / "broken" / "headrace_gateway" / "main.py").write_text("1 / 0")
    stack = make_stack(PYTHONPATH=f"{tmp_path / 'broken'}:{STAND_INS}")
    assert lines_of_failure(stack) == [
        "Error: gateway-0 will not be restarted: exit code 1: ZeroDivisionError: division by zero"
    ]


def test_killed_and_started_again_it_serves_on_the_same_ports_and_data(
    make_stack: MakeStack,
) -> None:
    port = str(ports.pick())
    first = make_stack("--port", port, HEADRACE_GRPC_PORT="0").start()
    first.kill("worker", 0, signal.SIGSTOP)
    pids = first.pids()
    os.kill(first.pid, signal.SIGKILL)
    second = make_stack("--port", port, HEADRACE_GRPC_PORT="0").start()
    assert second.url == f"http://127.0.0.1:{port}"
    assert living(pids) == []


def test_ephemeral_data_is_deleted_and_dev_json_stays(
    make_stack: MakeStack, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    stack = make_stack("--port", "0", "--ephemeral", TMPDIR=str(temporary)).start()
    assert len(list(temporary.iterdir())) == 1
    assert not list(stack.data_dir.rglob("appendonlydir"))
    os.kill(stack.pid, signal.SIGKILL)
    again = make_stack("--port", "0", "--ephemeral", TMPDIR=str(temporary)).start()
    assert again.stop() == 0
    assert list(temporary.iterdir()) == []
    assert dev_file.read(again.data_dir) is not None


def test_servers_that_the_environment_names_are_used(
    make_stack: MakeStack, nats_server: NatsProcess, valkey: ValkeyProcess
) -> None:
    stack = make_stack(HEADRACE_NATS_URL=nats_server.url, HEADRACE_REDIS_URL=valkey.url).start()
    assert {p["role"] for p in stack.processes()} == {"gateway", "worker", "task-state"}
    assert stack.dev()["nats_url"] == nats_server.url
    assert stack.dev()["redis_url"] == valkey.url


def test_each_line_of_a_child_is_shown_under_its_name(make_stack: MakeStack) -> None:
    stack = make_stack().start()
    until(lambda: "worker-0     | runs json:loads\n" in stack.log(), "its line is shown")
    stack.kill("task-state")
    until(lambda: "headrace     | task-state-0 ended: SIGKILL\n" in stack.log(), "the end is told")
    assert "\x1b[" not in stack.log()


def test_a_service_that_waited_in_vain_ends_the_start(
    make_stack: MakeStack, tmp_path: Path, nats_server: NatsProcess, valkey: ValkeyProcess
) -> None:
    (tmp_path / "waiting" / "headrace_gateway").mkdir(parents=True)
    (tmp_path / "waiting" / "headrace_gateway" / "__init__.py").touch()
    (tmp_path / "waiting" / "headrace_gateway" / "main.py").write_text(
        "import sys, time\ndef run(): time.sleep(2); sys.exit('no NATS at nats://there')"
    )
    stack = make_stack(
        PYTHONPATH=f"{tmp_path / 'waiting'}:{STAND_INS}",
        HEADRACE_STARTUP_TIMEOUT="2",  # Servers of its own would have to start in it too.
        HEADRACE_NATS_URL=nats_server.url,
        HEADRACE_REDIS_URL=valkey.url,
    )
    assert lines_of_failure(stack) == [
        "Error: gateway-0 will not be restarted: exit code 1: no NATS at nats://there"
    ]
    assert stack.log().count("gateway-0 ended") == 1
