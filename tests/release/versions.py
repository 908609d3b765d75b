"""The version of a release, in each place and each form."""

import re
from pathlib import Path

_CANDIDATE = re.compile(r"(a|b|rc)(\d+)$")


def semantic(version: str) -> str:
    """Return a Python package's version as npm and Helm have it: ``0.1.0-rc.1`` for 0.1.0rc1."""
    return _CANDIDATE.sub(r"-\1.\2", version)


def set_version(tree: Path, version: str, date: str) -> None:
    """Set the version of a tree, and the date of its section in the changelog."""
    own = semantic(version)
    for name, pattern, wanted in (
        ("pyproject.toml", r'^version = ".*"$', f'version = "{version}"'),
        ("clients/javascript/package.json", r'"version": "[^"]*"', f'"version": "{own}"'),
        ("deploy/helm/headrace/Chart.yaml", r"^version: .*$", f"version: {own}"),
        ("deploy/helm/headrace/Chart.yaml", r"^appVersion: .*$", f"appVersion: {own}"),
        ("CHANGELOG.md", r"^## \[[^]]*\] - .*$", f"## [{version}] - {date}"),
    ):
        file = tree / name
        text, found = re.subn(pattern, wanted, file.read_text(), count=1, flags=re.MULTILINE)
        assert found, f"{name}: {pattern}"
        file.write_text(text)
