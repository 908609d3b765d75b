"""``make release-rehearsal``: a release candidate, from the commit to a task on what was installed.

A clone of the checked-out commit gets the candidate's version and its tag, builds what the release
workflow builds, and an empty folder beside it installs that, without the clone. Nothing leaves the
machine. What needs the hosted workflow is missing: signatures and publishing.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.release.artifacts import FOLDER, SUMS
from tests.release.versions import semantic, set_version
from tests.support.helm_chart import helm_library

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "rehearsal"
URL = "http://127.0.0.1"

_READY = 180.0
_SCRIPT = """\
import { streamTask } from "@headrace/client";
let text = "";
for await (const event of streamTask(process.argv[2], "3")) {
  text += event.json.artifactUpdate?.artifact.parts[0].text ?? "";
}
console.log(text);
"""


def main(version: str) -> None:
    """Rehearse the release of a version.

    Raises:
        AssertionError: what was installed does not do what it should.
        subprocess.CalledProcessError: a step failed; its output says why.
    """
    if PLACE.exists():
        shutil.rmtree(PLACE)
    tree, artifacts, empty = PLACE / "source", PLACE / "artifacts", PLACE / "empty"
    _step(f"clone the commit, and make it {version}", candidate, tree, version)
    _step("build the release", build, tree, version)
    shutil.move(tree / FOLDER, artifacts)
    shutil.rmtree(tree)
    empty.mkdir()
    _step("check the checksums", _run, ["sha256sum", "--check", "--quiet", SUMS], artifacts)
    _step("install the wheel", install_wheel, artifacts, empty)
    _step("install the npm package", install_package, artifacts, empty)
    _step("run tasks on what was installed", run_tasks, empty, version)
    _step("render the chart", render_chart, artifacts, version)
    sys.stdout.write(f"rehearsed {version}: {artifacts}\n")


def _step(what: str, step: object, *arguments: object) -> None:
    assert callable(step)
    began = time.monotonic()
    step(*arguments)
    sys.stdout.write(f"{time.monotonic() - began:6.1f} s  {what}\n")
    sys.stdout.flush()


def candidate(tree: Path, version: str) -> None:
    """Clone the commit, and commit and tag the version there."""
    _run(["git", "clone", "--quiet", "--no-tags", str(ROOT), str(tree)], ROOT)
    set_version(tree, version, datetime.now(UTC).date().isoformat())
    # As old as the environment, which is this checkout's: it has what the requirements name.
    for path in tree.rglob("*"):
        if ".git" not in path.parts:
            os.utime(path, (0, 0))
    (tree / ".venv").symlink_to(ROOT / ".venv")
    who = ["-c", "user.name=rehearsal", "-c", "user.email=rehearsal@localhost"]
    _run(["git", *who, "commit", "--quiet", "--all", "--message", f"Release {version}"], tree)
    _run(["git", "tag", f"v{version}"], tree)


def build(tree: Path, version: str) -> None:
    """Run the commands of the workflow's job `build`."""
    _run(["make", "release-check", f"VERSION={version}"], tree)
    _run(["make", "release-artifacts"], tree)


def install_wheel(artifacts: Path, empty: Path) -> None:
    """Install the wheel into an environment of its own; its dependencies come from the index."""
    [wheel] = (artifacts / "python").glob("*.whl")
    _run([sys.executable, "-m", "venv", ".venv"], empty)
    pip = [".venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, f"{wheel}[all]"], empty)


def install_package(artifacts: Path, empty: Path) -> None:
    """Install the npm package."""
    [package] = (artifacts / "npm").glob("*.tgz")
    _run(["npm", "install", "--no-audit", "--no-fund", "--silent", str(package)], empty)


def run_tasks(empty: Path, version: str) -> None:
    """Serve the demo agents in the folder, and run a task on the command line and one in Node."""
    headrace = str(empty / ".venv" / "bin" / "headrace")
    log = empty / "dev.log"
    with log.open("wb") as output:
        stack = subprocess.Popen(
            [headrace, "dev", "--ephemeral", "--port", "0", "--agents", "headrace.demo:agents"],
            cwd=empty,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_environment(),
        )
    try:
        url = _served(log, stack)
        said = _run([headrace, "send", "--url", url, "--agent", "counter", "3"], empty)
        assert "1 2 3" in said, said
        (empty / "task.mjs").write_text(_SCRIPT)
        streamed = _run(["node", "task.mjs", f"{url}/v1/agents/counter"], empty)
        assert streamed.strip() == "1 2 3", streamed
        state = _run(["curl", "--silent", "--fail", f"{url}/openapi.json"], empty)
        assert json.loads(state)["info"]["version"] == version
    finally:
        stack.terminate()
        stack.wait(60)


def _served(log: Path, stack: subprocess.Popen[bytes]) -> str:
    """Return the URL of a stack, once it says that it is ready."""
    deadline = time.monotonic() + _READY
    while time.monotonic() < deadline and stack.poll() is None:
        for line in log.read_text().splitlines():
            if line.startswith("ready "):
                return line.split()[1]
        time.sleep(0.2)
    raise AssertionError(f"the stack is not ready:\n{log.read_text()}")


def render_chart(artifacts: Path, version: str) -> None:
    """Render the packaged chart, whose images have the version."""
    [package] = (artifacts / "chart").glob("*.tgz")
    with helm_library().Chart.load_archive(package.read_bytes()) as chart:
        rendered = "".join(chart.render(values={}, name="fleet", namespace="prod").values())
    assert f"headrace:{semantic(version)}" in rendered


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=_environment(), check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def _environment() -> dict[str, str]:
    """Return the variables of all commands: none of this checkout's or of a `make` around it."""
    own = ("MAKE", "MFLAGS", "PYTHON", "HEADRACE_", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


if __name__ == "__main__":
    main(sys.argv[1])
