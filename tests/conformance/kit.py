"""The kit: a folder with its sources, and a virtual environment of its own for what it needs."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".cache" / "tck"
_LONGEST = 900.0
"""Seconds that a run may take."""


class Kit:
    """One copy of the kit."""

    def __init__(self, path: Path) -> None:
        """Use the copy at `path`.

        Raises:
            SystemExit: there is none.
        """
        self.path = path.resolve()
        self.is_old = (self.path / "tests" / "mandatory").is_dir()
        """Whether it is the kit for 0.3."""
        if not (self.is_old or (self.path / "tests" / "compatibility").is_dir()):
            raise SystemExit(f"tck: {self.path} holds no copy of a2aproject/a2a-tck")
        self._environment = ENVIRONMENTS / ("0.3" if self.is_old else "1.0")

    def prepare(self) -> None:
        """Install what it needs, once."""
        done = self._environment / "installed"
        if done.exists():
            return
        subprocess.run([sys.executable, "-m", "venv", str(self._environment)], check=True)
        pip = [str(self._python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, str(self.path)], check=True)
        done.touch()

    def run(self, url: str, report: Path, *, activating: bool, log: Path) -> None:
        """Run it against the agent at `url`; a JUnit report and what it says are written."""
        plugins = ["-p", "no:cacheprovider"]
        if activating:
            plugins += ["-p", "activating"]
        command = [str(self._python), "-m", "pytest", *self._selection(url), "-q", *plugins]
        environment = {"PYTHONPATH": str(Path(__file__).parent), "PYTHONDONTWRITEBYTECODE": "1"}
        with log.open("wb") as out:
            subprocess.run(
                [*command, "-o", "addopts=", "--tb=short", f"--junitxml={report}"],
                cwd=self.path,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=_LONGEST,
                check=False,
            )

    def _selection(self, url: str) -> list[str]:
        if self.is_old:
            return ["tests/mandatory", "tests/optional", f"--sut-url={url}", "--test-scope=all"]
        return ["tests/compatibility", f"--sut-host={url}"]

    @property
    def _python(self) -> Path:
        return self._environment / "bin" / "python"
