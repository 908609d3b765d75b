"""``make release-artifacts``: all that a release has, in ``build/release`` of the current folder.

``make docs`` has built the site before.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support import client_package, javascript
from tests.support.helm_chart import helm_library

FOLDER = Path("build") / "release"
SUMS = "SHA256SUMS"

_SBOM_TOOL = "cyclonedx-bom==7.5.0"
_TOOLS_OF = "2026-11-01"
"""The day of which the packages of that tool are."""


def main() -> None:
    """Build everything, and print what there is."""
    if FOLDER.exists():
        shutil.rmtree(FOLDER)
    for name, build in (
        ("python", python_packages),
        ("npm", npm_package),
        ("chart", chart),
        ("docs", site),
        ("sbom", bills_of_materials),
    ):
        (FOLDER / name).mkdir(parents=True)
        build(FOLDER / name)
    for line in write_sums(FOLDER):
        sys.stdout.write(f"{line}\n")


def python_packages(folder: Path) -> None:
    """Build the source distribution, and the wheel from it."""
    _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)])


def npm_package(folder: Path) -> None:
    """Pack the JavaScript client. Its compiler is among the packages of the tests."""
    javascript.install(javascript.FOLDER)
    with TemporaryDirectory() as made:
        client_package.pack(Path(made) / "build", folder)


def chart(folder: Path) -> None:
    """Package the Helm chart."""
    helm_library().package(Path("deploy") / "helm" / "headrace", destination=folder)


def site(folder: Path) -> None:
    """Pack the documentation site."""
    with tarfile.open(folder / "headrace-docs.tar.gz", "w:gz") as packed:
        packed.add(Path("build") / "site", "headrace-docs")


def bills_of_materials(folder: Path) -> None:
    """List the locked packages of the services and of the console, as CycloneDX."""
    uv = str(Path(sys.executable).parent / "uv")
    tool = [uv, "tool", "run", "--quiet", "--exclude-newer", _TOOLS_OF, "--from", _SBOM_TOOL]
    options = ["--pyproject", "pyproject.toml", "--output-reproducible", "--output-file"]
    python = folder / "headrace.cdx.json"
    _run([*tool, "cyclonedx-py", "requirements", *options, str(python), "requirements.txt"])
    (folder / "console.cdx.json").write_text(_console_packages())


def _console_packages() -> str:
    """Return npm's list of the console's packages, which npm makes of packages with a version."""
    console = Path("services") / "console"
    with TemporaryDirectory() as made:
        shutil.copy(console / "package-lock.json", made)
        package = json.loads((console / "package.json").read_text())
        versioned = json.dumps(package | {"version": "0.0.0"})
        (Path(made) / "package.json").write_text(versioned)
        npm = ["npm", "sbom", "--sbom-format", "cyclonedx", "--package-lock-only"]
        return _run([*npm, "--omit", "dev", "--prefix", made])


def write_sums(folder: Path) -> list[str]:
    """Write the checksums of all files in the form of ``sha256sum``, and return the lines."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}"
        for path in files
    ]
    (folder / SUMS).write_text("".join(f"{line}\n" for line in lines))
    return lines


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
