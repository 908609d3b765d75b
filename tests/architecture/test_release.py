"""The release workflow runs commands that exist, on what the package says that it supports."""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import yaml

from tests.architecture.tree import ROOT
from tests.release.artifacts import FOLDER, SUMS, write_sums
from tests.release.versions import semantic, set_version

_TARGET = re.compile(r"\bmake ([a-z-]+)")
_PINNED = re.compile(r"uses: [\w.-]+(/[\w.-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+\b")
_STATED = (
    "Makefile",
    "pyproject.toml",
    "clients/javascript/package.json",
    "deploy/helm/headrace/Chart.yaml",
)
"""What `make release-check` reads, beside the changelog."""

_CLASSIFIER = "Programming Language :: Python :: "


def project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])


def jobs() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"])


def steps(key: str) -> list[str]:
    return [step[key] for job in jobs().values() for step in job["steps"] if key in step]


def changelog(date: str) -> str:
    """Return the changelog with this date at the section of the packages' version."""
    heading = re.escape(f"## [{project()['version']}] - ")
    text = (ROOT / "CHANGELOG.md").read_text()
    return re.sub(rf"^({heading}).*$", rf"\g<1>{date}", text, flags=re.MULTILINE)


def compared(
    folder: Path, version: str, date: str = "2026-12-01"
) -> subprocess.CompletedProcess[str]:
    """Run `make release-check` in a copy whose changelog has a date."""
    for name in _STATED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text((ROOT / name).read_text())
    (folder / "CHANGELOG.md").write_text(changelog(date))
    command = ["make", "release-check", f"VERSION={version}"]
    return subprocess.run(
        command, cwd=folder, env=_own(), capture_output=True, text=True, check=False
    )


def _own() -> dict[str, str]:
    """Return the environment without the jobs and variables of a `make` that runs the tests."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFL"))
    }


def test_its_commands_are_targets_of_the_makefile() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = [name for command in steps("run") for name in _TARGET.findall(command)]
    assert sorted(named) == [
        "audit",
        "bench-falls",
        "docs",
        "release-artifacts",
        "release-check",
        "soak",
        "test",
        "test",
        "test-chart",
        "upgrade",
    ]
    assert set(named) <= set(targets)


def test_its_actions_are_pinned_by_their_commit_with_the_release_beside_it() -> None:
    lines = (ROOT / ".github/workflows/release.yml").read_text().splitlines()
    actions = [line for line in lines if "uses:" in line]
    assert len(actions) == len(steps("uses")) > 5
    assert [action for action in actions if not _PINNED.search(action)] == []


def test_what_is_published_was_audited_as_it_is_locked() -> None:
    assert "audit" in jobs()["publish"]["needs"]
    dry = ["make", "--dry-run", "--always-make", "audit"]
    done = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "--strict --disable-pip --require-hashes" in done.stdout
    assert "--requirement requirements.txt" in done.stdout
    locked = (ROOT / "requirements.txt").read_text()
    assert len(re.findall(r"^[\w.-]+==", locked, re.MULTILINE)) > 20


def test_it_installs_on_every_python_that_the_package_names() -> None:
    classifiers = [each.removeprefix(_CLASSIFIER) for each in project()["classifiers"]]
    named = [each for each in classifiers if re.fullmatch(r"3\.\d+", each)]
    assert jobs()["install"]["strategy"]["matrix"]["python"] == named
    assert project()["requires-python"] == f">={named[0]}"


def test_nothing_is_published_before_it_was_installed_and_rolled_out() -> None:
    found = jobs()
    assert {"build", "install", "upgrade"} <= set(found["publish"]["needs"])
    assert found["publish"]["permissions"] == {"id-token": "write"}


def test_the_pictures_of_browser_tests_are_an_artifact_also_when_one_fails() -> None:
    test, upload = jobs()["console"]["steps"][-2:]
    assert upload["with"]["path"] == test["env"]["HEADRACE_TEST_PICTURES"]
    assert upload["uses"].startswith("actions/upload-artifact@")
    assert upload["if"] == "always()"


def test_the_packages_have_one_version() -> None:
    package = json.loads((ROOT / "clients/javascript/package.json").read_text())
    chart = yaml.safe_load((ROOT / "deploy/helm/headrace/Chart.yaml").read_text())
    assert {package["version"], chart["appVersion"]} == {semantic(project()["version"])}


def test_a_candidate_is_accepted_in_the_form_of_each_package(tmp_path: Path) -> None:
    assert compared(tmp_path, project()["version"]).returncode == 0
    set_version(tmp_path, "0.1.0rc1", "2026-12-01")
    package = json.loads((tmp_path / "clients/javascript/package.json").read_text())
    assert package["version"] == "0.1.0-rc.1"
    command = ["make", "release-check", "VERSION=0.1.0rc1"]
    subprocess.run(command, cwd=tmp_path, env=_own(), check=True)


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "one.whl").write_bytes(b"one")
    assert len(write_sums(tmp_path)) == 1
    check = ["sha256sum", "--check", "--quiet", SUMS]
    subprocess.run(check, cwd=tmp_path, check=True)


def test_what_is_published_is_what_was_built_and_signed() -> None:
    found = jobs()
    [attest] = [step for step in found["build"]["steps"] if "attest" in step.get("uses", "")]
    assert attest["with"] == {"subject-checksums": f"{FOLDER}/{SUMS}"}
    uploaded = found["build"]["steps"][-1]["with"]
    assert (uploaded["name"], uploaded["path"]) == ("release", str(FOLDER))
    for name in ("publish", "release"):
        assert found[name]["steps"][0]["with"] == {"name": "release", "path": "release"}


def test_the_packages_version_with_its_section_in_the_changelog_is_accepted(tmp_path: Path) -> None:
    done = compared(tmp_path, project()["version"])
    assert (done.returncode, done.stderr) == (0, "")


def test_a_section_without_a_date_is_refused(tmp_path: Path) -> None:
    version = project()["version"]
    done = compared(tmp_path, version, "soon")
    assert done.returncode != 0
    assert done.stderr.startswith(f"CHANGELOG.md has no section [{version}] with a date\n")


def test_another_version_is_refused(tmp_path: Path) -> None:
    done = compared(tmp_path, "99.0.0")
    assert done.returncode != 0
    assert done.stderr.startswith("pyproject.toml has another version\n")


def test_the_page_lists_every_extra() -> None:
    page = (ROOT / "docs/packaging.md").read_text()
    listed = re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(project()["optional-dependencies"])
