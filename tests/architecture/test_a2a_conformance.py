"""The A2A table of the conformance page names test files that look at what their rows name."""

import re

import pytest

from tests.architecture.tree import ROOT

PAGE = ROOT / "docs" / "conformance.md"
_SCRIPTS = ROOT / "tests" / "e2e" / "javascript"
_SCRIPT = re.compile(r'"(\w+\.mjs)"')
_FILE = re.compile(r"`((?:tests/)?[\w/]*\w+\.py)`")

LOOKS_AT = {
    "JSON-RPC": r"\bRpc\b|jsonrpc|JSONRPC|json_talk|\btalk\b",
    "REST": r"\bRest\b|rest|\btalk\b",
    "gRPC": r"\bGrpc\b|grpc|\btalk\b",
    "agents": r"agent",
    "cursors": r"cursor|Last-Event-ID|last-event-id",
    "loss": r"lost|loss|DATA_LOSS",
    "limits": r"limit|RESOURCE_EXHAUSTED",
    "stopping": r"stop|UNAVAILABLE",
    "stalled clients": r"stall|slow",
    "reflection": r"reflection",
    "health": r"health",
    "extensions": r"A2A-Extensions",
    "0.3's header": r"X-A2A-Extensions",
    "capabilities": r"capabilities",
    "output modes": r"acceptedOutputModes|output_modes",
    "SDK's clients": r"from a2a\.(client|compat)",
    "absent or empty": r'"A2A-Version": ""|A2A-Version',
    "cards": r"agent-card|card",
    "tenants": r"tenant",
    "send": r"SendMessage|send_message|sendMessage|\bsend\b",
    "stream": r"stream",
    "disconnect": r"disconnect|leave|left|drop|abort|cut",
    "resubscribe": r"subscribe|resubscribe",
    "cancel": r"cancel",
    "read": r"getTask|get_task|\bget\b",
    "list": r"listTasks|list_tasks|\blist\b",
    "follow-up": r"follow|taskId|task_id|input.required",
    "input-required": r"INPUT_REQUIRED|input.required",
    "push": r"push",
    "notifications": r"push|notification",
    "extended card": r"extended",
    "errors": r"error|refused|Error",
}
"""What a test looks at that shows what a row names."""


def rows() -> dict[str, str]:
    """Return what the table's rows name, with the text of the files that show it."""
    _, _, section = PAGE.read_text().partition("\n# Conformance: A2A\n")
    _, _, table = section.partition("\n| what | test |\n|---|---|\n")
    found = dict[str, str]()
    for line in table.strip().splitlines():
        named, tests = line.strip("| ").split(" | ")
        found[named] = "".join(_texts(tests))
    return found


def _texts(tests: str) -> list[str]:
    """Return the texts of files, and of the scripts that these run.

    A file without a folder stands beside the one before it.
    """
    texts, folder = list[str](), ROOT
    for path in _FILE.findall(tests):
        file = ROOT / path if "/" in path else folder / path
        folder = file.parent
        texts.append(file.read_text())
        texts += [(_SCRIPTS / name).read_text() for name in _SCRIPT.findall(texts[-1])]
    return texts


def blind(named: str, text: str) -> list[str]:
    """Return what a row names that its tests don't look at."""
    words = [
        word for word in LOOKS_AT if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", named)
    ]
    assert words, f"{named}: say in LOOKS_AT what shows this"
    return [word for word in words if not re.search(LOOKS_AT[word], text)]


def test_each_row_names_tests_that_look_at_it() -> None:
    found = rows()
    assert len(found) >= 7
    assert [
        (named, blind(named, text)) for named, text in found.items() if blind(named, text)
    ] == []


@pytest.mark.parametrize("word", LOOKS_AT)
def test_a_file_that_looks_at_nothing_is_seen(word: str) -> None:
    assert word in blind(word, "def test_nothing() -> None: ...")


def test_every_word_is_one_that_a_row_names() -> None:
    named = " ".join(rows())
    assert [word for word in LOOKS_AT if word not in named] == []
