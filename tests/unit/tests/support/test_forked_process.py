import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.forked_process import HEADRACE, ForkedProcess, can_fork, start_service
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has forks of services")

PROBE = """
import gc, json, os, signal, sys, threading
found = {
    "environment": dict(os.environ),
    "arguments": sys.argv,
    "path": sys.path,
    "folder": os.getcwd(),
    "leads its group": os.getpgrp() == os.getpid(),
    "descriptors": sorted(os.listdir("/proc/self/fd"), key=int),
    "stdin": os.readlink("/proc/self/fd/0"),
    "interrupts": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "threads": threading.active_count(),
    "is buffered": not sys.stdout.write_through,
}
print(json.dumps(found), file=sys.stderr)
sys.exit(7)
"""


def start(folder: Path, *arguments: str, **more: str) -> subprocess.Popen[bytes] | ForkedProcess:
    environment = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **more}
    command = [str(HEADRACE), *arguments]
    assert can_fork(command, environment)
    return start_service(command, folder / "log", folder=folder, environment=environment)


def test_a_fork_finds_what_a_new_process_finds(tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "probe.py").write_text(PROBE)
    given = {"PYTHONPATH": str(modules), "ANSWER": "42"}
    assert start(tmp_path, "worker", "probe:agents", **given).wait(60) == 7
    anew = subprocess.run(
        [HEADRACE, "worker", "probe:agents"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **given},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        process_group=0,
        check=False,
    )
    assert anew.returncode == 7
    assert json.loads((tmp_path / "log").read_text()) == json.loads(anew.stderr)


ENDING = """
import atexit, sys, threading, time

def outlive_it():
    threading.main_thread().join()
    print("a thread has ended")

atexit.register(print, "the last handler")
atexit.register(print, "the first handler")
threading.Thread(target=outlive_it).start()
print("begun")
"""


@pytest.mark.parametrize(
    ("end", "code", "reason"),
    [("sys.exit(7)", 7, ""), ("sys.exit('why')", 1, "why\n"), ("sys.exit()", 0, "")],
)
def test_all_that_is_done_at_exit_is_done(tmp_path: Path, end: str, code: int, reason: str) -> None:
    (tmp_path / "ending.py").write_text(ENDING + end)
    assert start(tmp_path, "worker", "ending:agents").wait(60) == code
    ended = f"begun\n{reason}a thread has ended\nthe first handler\nthe last handler\n"
    assert (tmp_path / "log").read_text() == ended


def test_forks_know_nothing_of_each_other(tmp_path: Path) -> None:
    found = [printed_by_a_module_named_mine(tmp_path / number, number) for number in "12"]
    assert found == ["1 1", "2 2"]


def printed_by_a_module_named_mine(folder: Path, number: str) -> str:
    folder.mkdir()
    (folder / "mine.py").write_text(f"import os\nprint({number}, os.environ.pop('MINE'))\n")
    assert start(folder, "worker", "mine:agents", MINE=number).wait(60) != 0
    return (folder / "log").read_text().partition("\n")[0]


def test_a_fork_is_killed_frozen_and_waited_for(tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text("import time\nprint('sleeps')\ntime.sleep(600)\n")
    process = start(tmp_path, "worker", "sleeper:agents")
    until(lambda: "sleeps" in (tmp_path / "log").read_text(), "it sleeps")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    assert process.poll() == process.returncode == -signal.SIGKILL
    process.terminate()  # It has ended: nobody else with its id gets the signal.


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        (["node", "worker.mjs"], {}),
        ([str(HEADRACE), "completion"], {}),
        ([str(HEADRACE)], {}),
        ([str(HEADRACE), "worker"], {"PYTHONPROFILEIMPORTTIME": "1"}),
    ],
    ids=[
        "another program",
        "a command that is not imported",
        "no command",
        "a variable of Python's start",
    ],
)
def test_anything_else_is_started_anew(command: list[str], environment: dict[str, str]) -> None:
    assert not can_fork(command, environment)
