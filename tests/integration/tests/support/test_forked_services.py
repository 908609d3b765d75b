"""The services of a stack that tests start: forks, as new processes would be."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked_process import HEADRACE
from tests.support.pids import living
from tests.support.stack import ANEW, Stack
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has forks of services")

PROBE = """
import json, os, pathlib, signal, sys, threading, time
found = {
    "variables": sorted(os.environ),
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
is_fork = "fork_server" in str(sys.orig_argv)
of_this = {"id": os.getpid(), "parent": os.getppid(), "is a fork": is_fork}
with open(".found", "w") as file:
    json.dump([found, of_this], file)
os.rename(".found", "found.json")
time.sleep(600)
"""


def found_by_a_service(folder: Path, program: tuple[str | Path, ...]) -> list[dict[str, Any]]:
    """Return what a worker finds, and what it is, in a stack that is killed then."""
    (folder / "probe.py").write_text(PROBE)
    stack = Stack(folder, agents="probe:agents", program=program).launch()
    try:
        file = folder / "found.json"
        until(
            lambda: file.exists() or stack.exit_code() is not None, "the worker looks around", 240
        )
        found: list[dict[str, Any]] = json.loads(file.read_text())
        file.unlink()
        assert found[1]["parent"] == stack.pid
        os.kill(stack.pid, signal.SIGKILL)
        until(lambda: not living([found[1]["id"]]), "the worker ends with its stack")
        return found
    finally:
        stack.close()


def test_a_service_of_a_forked_stack_finds_what_a_new_one_finds(tmp_path: Path) -> None:
    forked, of_forked = found_by_a_service(tmp_path, (HEADRACE,))
    new, of_new = found_by_a_service(tmp_path, ANEW)
    assert forked == new
    assert (of_forked["is a fork"], of_new["is a fork"]) == (True, False)
