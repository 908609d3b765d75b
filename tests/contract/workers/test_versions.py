"""Workers of both languages tell newer run requests from malformed ones in the same way."""

from pathlib import Path

from headrace.model.entry import VERSION, check_version
from headrace.model.errors import NewerVersion, UndecodableMessage
from tests.support import javascript

EXAMPLE = Path(__file__).parents[3] / "examples" / "javascript"
VERSIONS = (
    None,
    "1",
    "2",
    "3",
    "4",
    "99",
    "9" * 15,
    "9" * 16,
    "0",
    "",
    "x",
    "03",
    " 3",
    "3.0",
    "-1",
)


def found(version: str | None) -> str:
    try:
        check_version("run", None if version is None else {VERSION: version})
    except NewerVersion:
        return "newer"
    except UndecodableMessage:
        return "unreadable"
    return "readable"


def test_a_version_means_the_same_in_javascript() -> None:
    expected = [found(version) for version in VERSIONS]
    assert set(expected) == {"newer", "unreadable", "readable"}
    javascript.install(EXAMPLE)
    assert javascript.run("versions.mjs", VERSIONS, Path(__file__).parent) == expected
