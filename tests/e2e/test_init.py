"""What `headrace init` creates: its tests pass, and it is served and talked to as it says."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stack import Stack
from tests.support.waiting import until

_TIMEOUT = 250


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    inherited = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    return subprocess.run(
        [sys.executable, "-P", "-m", *command],
        cwd=folder,
        env=inherited,
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    done = run(tmp_path, "headrace_cli", "init", "shop")
    assert done.returncode == 0, done.stderr
    return tmp_path / "shop"


DECLARED = """
triggers: [{name: orders, agent: shop, subject: orders.*}]
schedules: [{name: nightly, agent: shop, message: nails, cron: 0 2 * * *}]
"""

IN_CODE = """\
from headrace import on, schedule

@on("stock.changed", name="stock")
@schedule("screws", every="1h")
@agent(
"""


@pytest.fixture
def served(project: Path) -> Iterator[Stack]:
    with (project / "headrace.yaml").open("a") as file:
        file.write(DECLARED)
    code = project / "shop.py"
    code.write_text(code.read_text().replace("@agent(\n", IN_CODE))
    with Stack(project) as stack:
        yield stack


def test_its_tests_pass(project: Path) -> None:
    done = run(project, "pytest", "-q")
    assert "3 passed" in done.stdout, done.stdout
    assert "arning" not in done.stdout + done.stderr


def test_its_configuration_is_valid(project: Path) -> None:
    done = run(project, "headrace_cli", "config", "check")
    assert (done.stdout, done.stderr) == ("shop: Sells what is in stock.\n", "")


def test_its_code_passes_strict_type_checks(project: Path) -> None:
    done = run(project, "mypy", "--strict", "shop.py", "test_shop.py")
    assert done.returncode == 0, done.stdout


def test_it_is_served_without_a_flag_and_answers_what_is_suggested(served: Stack) -> None:
    until(lambda: len(served.said) == 9, "the agents and a command are printed")
    ready, console, nats, *declared, listed, suggested = served.said
    assert ready == f"ready {served.url}"
    assert console == f"console {served.url}/console/"
    assert nats == f"nats {served.dev()['nats_url']}"
    assert declared == ["triggers orders", "schedules nightly", "triggers stock", "schedules shop"]
    assert listed == f"  shop {served.url}/v1/agents/shop (default)"
    assert suggested == f"try: headrace send --url {served.url} nails"

    asked = run(served.folder, "headrace_cli", *shlex.split(suggested)[2:])
    assert asked.stdout == "There are 7 nails. How many would you like?\n"
    assert asked.returncode == 6

    [task] = set(re.findall(r"task (\S+) ", asked.stderr))
    sold = run(served.folder, "headrace_cli", "send", "--url", served.url, "--task", task, "3")
    assert sold.stdout == "Sold: 3 nails.\n"
    assert sold.returncode == 0

    kept = run(served.folder, "headrace_cli", "schedules", "list", "--url", served.url)
    assert "0 2 * * * (UTC)" in kept.stdout
    assert "every 1h" in kept.stdout
