"""What is committed builds and reads the same everywhere."""

import re

import pytest

from tests.architecture.tree import ROOT, tracked

# Brackets keep these patterns from matching their own source.
REGISTRY = re.compile(r"py[p]i\.(org|python)|python[h]osted|registry\.[n]pmjs|deb\.[d]ebian\.org")
MACHINE_PATH = re.compile(r"(?:^|[\s\"'(=:`])/(?:wor[k]|roo[t]|hom[e]/[\w.-]+|User[s]/[\w.-]+)/")


def findings(text: str) -> list[str]:
    """Return the lines of `text` that name a package registry or a folder of one machine."""
    return [
        line for line in text.splitlines() if REGISTRY.search(line) or MACHINE_PATH.search(line)
    ]


def test_no_tracked_file_names_a_registry_or_a_path_of_one_machine() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in tracked()
        if (lines := findings(path.read_text(errors="replace")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "pieces",
    [
        ("--index-url https://py", "pi.org/simple"),
        ("https://files.python", "hosted.org/packages/x.whl"),
        ('"resolved": "https://registry.', 'npmjs.org/x.tgz"'),
        ("cd /hom", "e/someone/headrace"),
        ('path = "/wor', 'k/main"'),
        ("(/roo", "t/.cache)"),
    ],
    ids=lambda pieces: str(pieces[0]),
)
def test_the_search_finds_what_it_is_for(pieces: tuple[str, str]) -> None:
    assert findings("".join(pieces)) != []


@pytest.mark.parametrize(
    "name", ["requirements.txt", "requirements-dev.txt", "requirements-docs.txt"]
)
def test_every_pinned_package_has_a_hash(name: str) -> None:
    entries = (ROOT / name).read_text().replace("\\\n", " ").splitlines()
    assert len(entries) > 1
    assert [entry for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []
