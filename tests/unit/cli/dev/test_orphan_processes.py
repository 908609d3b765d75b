"""What the next stack ends where the kernel did not: processes like the real ones."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_cli.dev import dev_file, orphan_processes
from headrace_cli.dev.dev_file import Role
from headrace_cli.dev.orphan_processes import ProcessEntry, look_up
from tests.support.pids import living
from tests.support.waiting import until

SLEEP = "import signal; signal.pause()"


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose command line names a nats-server."""
    program = tmp_path / "nats-server"
    program.write_text(SLEEP)
    with subprocess.Popen([sys.executable, str(program)]) as process:
        until(lambda: program.name in getattr(look_up(process.pid), "command", ""), "it runs")
        yield process
        process.kill()


def note(folder: Path, role: Role, pid: int) -> None:
    processes: list[dev_file.Process] = [{"role": role, "index": 0, "pid": pid, "port": None}]
    dev_file.write(folder, {"processes": processes, "nats_url": "", "redis_url": ""})


def test_an_orphan_is_killed(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    note(tmp_path, "nats", sleeper.pid)
    assert orphan_processes.end_orphans(tmp_path) == [sleeper.pid]
    assert sleeper.wait() == -signal.SIGKILL


def test_a_pid_that_another_program_has_now_is_left_alone(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    note(tmp_path, "redis", sleeper.pid)
    assert orphan_processes.end_orphans(tmp_path) == []
    assert sleeper.poll() is None


def test_the_child_of_another_living_stack_is_left_alone(
    tmp_path: Path, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen(pid: int) -> ProcessEntry | None:
        return (
            ProcessEntry(1, "python -m headrace_cli dev --port 0")
            if pid == os.getpid()
            else look_up(pid)
        )

    monkeypatch.setattr("headrace_cli.dev.orphan_processes.look_up", seen)
    note(tmp_path, "nats", sleeper.pid)
    assert orphan_processes.end_orphans(tmp_path) == []
    assert sleeper.poll() is None


def test_without_a_file_there_are_no_orphans(tmp_path: Path) -> None:
    assert orphan_processes.end_orphans(tmp_path) == []


def test_a_process_is_found_by_its_pid() -> None:
    me = look_up(os.getpid())
    assert me is not None
    assert me.parent == os.getppid()
    assert me.command.startswith(sys.orig_argv[0])


@pytest.mark.parametrize(
    ("printed", "entry"),
    [
        (
            "Ss+    812 /bin/nats-server -c x.conf\n",
            ProcessEntry(812, "/bin/nats-server -c x.conf"),
        ),
        ("Z      812 <defunct>\n", None),
        ("", None),
    ],
)
def test_where_there_is_no_proc_ps_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, printed: str, entry: ProcessEntry | None
) -> None:
    def answer(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[-1] == "4711"
        return subprocess.CompletedProcess(command, 0, stdout=printed)

    monkeypatch.setattr("headrace_cli.dev.orphan_processes._PROC", tmp_path)
    monkeypatch.setattr("subprocess.run", answer)
    assert look_up(4711) == entry


def test_an_ended_process_is_not_found() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        assert living([process.pid]) == []
