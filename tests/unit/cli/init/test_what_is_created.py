"""What `headrace init` creates is valid, and typed.

`test_wheel.py` runs its tests, serves it and talks to it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.compose_file import ROOT

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


def test_its_configuration_is_valid(project: Path) -> None:
    done = run(project, "headrace_cli", "config", "check")
    assert (done.stdout, done.stderr) == ("shop: Sells what is in stock.\n", "")


def test_its_code_passes_strict_type_checks(project: Path) -> None:
    # With its configuration, `make check` has left the types of all that is imported, also where it
    # began beside the tests: unit tests come last.
    shared = (f"--cache-dir={ROOT / '.mypy_cache'}", f"--config-file={ROOT / 'pyproject.toml'}")
    done = run(project, "mypy", "--strict", *shared, "shop.py", "test_shop.py")
    assert done.returncode == 0, done.stdout
