"""The wheel of the source distribution, in a clean environment, serves from another folder."""

import shlex
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from headrace_gateway.console.pages import site
from tests.support import tutorial
from tests.support.compose_file import ROOT
from tests.support.stack import Stack

_INSTALLING = 400
pytestmark = pytest.mark.timeout(1000)

_, _TOOLS, _, _DELEGATION, _ = tutorial.STEPS

PACKAGES = {
    "headrace",
    "headrace_cli",
    "headrace_dojo",
    "headrace_gateway",
    "headrace_task_state",
    "headrace_triggers",
    "headrace_worker",
}

AGENT = '''"""Lies in the folder from which the stack is started."""

from headrace import RunContext, agent


@agent()
async def repeater(run: RunContext) -> str:
    """Says it twice."""
    return f"{run.prompt} {run.prompt}"
'''


def installing_in(environment: Path) -> list[str]:
    """Return how this environment's pip, which is there already, installs into that one."""
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    return [*pip, "install", "--no-compile", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir"]
    subprocess.run([*build, folder, ROOT], check=True, capture_output=True, timeout=_INSTALLING)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [wheel] = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the pinned packages and the wheel: nothing of the checkout."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    made = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(made, check=True, timeout=_INSTALLING)
    pip = [*installing_in(folder), "--no-deps"]
    pinned = ["--require-hashes", "--requirement", str(ROOT / "requirements.txt")]
    for wanted in (pinned, [str(wheel)]):
        subprocess.run([*pip, *wanted], check=True, capture_output=True, timeout=_INSTALLING)
    return folder


@pytest.fixture
def project(environment: Path, tmp_path: Path) -> Path:
    """What `headrace init` of the clean environment creates."""
    init = [str(environment / "bin" / "headrace"), "init", "shop"]
    subprocess.run(init, cwd=tmp_path, check=True, capture_output=True, timeout=_INSTALLING)
    return tmp_path / "shop"


@pytest.fixture
def repeaters(environment: Path, tmp_path: Path) -> Iterator[Stack]:
    """A stack of the clean environment's own, with an agent of its folder."""
    (tmp_path / "my_agents.py").write_text(AGENT)
    program = [environment / "bin" / "headrace"]
    with Stack(tmp_path, agents="my_agents:repeater", program=program) as stack:
        yield stack


@pytest.fixture
def shops(environment: Path, tmp_path: Path) -> Iterator[Stack]:
    """A stack of the clean environment's own in the folder of the tutorial's fourth step."""
    tutorial.write_files(tmp_path, _DELEGATION)
    program = [environment / "bin" / "headrace"]
    with Stack(tmp_path, agents="shop:shop,desk:desk", program=program) as stack:
        yield stack


def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        tops = {name.partition("/")[0] for name in content.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES


def test_the_wheel_has_the_console(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        packed = {name for name in content.namelist() if "/console/site/" in name}
    assert {name.partition("/site/")[2] for name in packed} >= {"licenses.txt", *site()}


def test_the_source_distribution_holds_the_same_and_no_tests(built: Path, wheel: Path) -> None:
    [source] = built.glob("*.tar.gz")
    with tarfile.open(source) as content:
        files = [Path(name) for name in content.getnames()]
    with zipfile.ZipFile(wheel) as content:
        modules = [name for name in content.namelist() if name.endswith(".py")]
    assert len([file for file in files if file.suffix == ".py"]) == len(modules) > 100
    assert [file for file in files if {"tests", "docs"} & set(file.parts)] == []


def test_each_package_says_that_it_is_typed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        typed = {name for name in content.namelist() if name.endswith("/py.typed")}
    assert typed == {f"{name}/py.typed" for name in PACKAGES}


def test_everything_comes_from_the_installed_wheel(environment: Path, tmp_path: Path) -> None:
    imports = "; ".join(f"import {name}; print({name}.__file__)" for name in sorted(PACKAGES))
    ran = subprocess.run(
        [environment / "bin" / "python", "-c", imports],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert all(line.startswith(f"{environment}/") for line in ran.stdout.splitlines())


def test_it_serves_an_agent_of_another_folder(repeaters: Stack, environment: Path) -> None:
    send = [str(environment / "bin" / "headrace"), "send", "--url", repeaters.url]
    sent = subprocess.run(
        [*send, "--agent", "repeater", "hello"],
        cwd=repeaters.folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (sent.returncode, sent.stdout) == (0, "hello hello\n"), sent.stderr


def test_the_tutorial_is_answered_as_it_says(shops: Stack, environment: Path) -> None:
    for step in (_TOOLS, _DELEGATION):
        [command] = [one for one in tutorial.outputs(step) if one.startswith("headrace send")]
        program, *arguments = shlex.split(command)
        sent = subprocess.run(
            [environment / "bin" / program, *arguments, "--url", shops.url],
            cwd=shops.folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        said = (sent.returncode, sent.stdout)
        assert said == (0, tutorial.outputs(step)[command]), sent.stderr


def test_the_tests_of_a_new_project_pass(environment: Path, project: Path) -> None:
    """Its templates are in the wheel, and pytest finds the plugin by its entry point."""
    wanted = [f"{name}=={version(name)}" for name in ("pytest", "pytest-asyncio")]
    pip = [*installing_in(environment), *wanted]
    subprocess.run(pip, check=True, capture_output=True, timeout=_INSTALLING)
    tests = subprocess.run(
        [environment / "bin" / "python", "-m", "pytest", "-q"],
        cwd=project,
        check=False,
        capture_output=True,
        text=True,
        timeout=_INSTALLING,
    )
    assert "3 passed" in tests.stdout, tests.stdout
