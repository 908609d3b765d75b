"""One word per thing: names that were replaced by the field's own terms do not come back.

The terms stand in the glossary of `docs/design.md`. Only identifiers are looked at, part by part:
`taken_seats` has the parts ``taken`` and ``seats``.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, modules, modules_of_tests

REPLACED = {
    "asked": "request, follow_up, interrupts, parameters",
    "breath": "loop turns",
    "bury": "put_tombstone",
    "census": "survey",
    "conclusion": "completion",
    "dialect": "renderer, variant",
    "era": "projection number",
    "expense": "usage",
    "farewell": "close notice, closing timeout",
    "hasten": "advance",
    "heard": "subscriptions, delivered",
    "hopeless": "fatal",
    "intake": "submissions",
    "judge": "decide",
    "kin": "child",
    "lane": "queue",
    "lanes": "queues",
    "leads": "joins",
    "leg": "run",
    "legs": "runs",
    "lifeline": "heartbeat thread",
    "meanwhile": "reorder buffer",
    "obey": "execute",
    "offspring": "child tasks",
    "outbox": "appender",
    "outlet": "sink",
    "patience": "timeout",
    "patiently": "wait_for",
    "performance": "execution",
    "persevere": "with retries",
    "poke": "recheck",
    "pulse": "health probe",
    "quoting": "relayed events",
    "recall": "load_task",
    "resending": "idempotency",
    "retell": "load_events",
    "said": "content, message, text, output",
    "say": "emit, send, print",
    "says": "states, contains",
    "seat": "permit",
    "seats": "stream limits",
    "speaker": "active agent",
    "spoken": "subprotocol",
    "stalling": "slow client",
    "station": "worker resources",
    "stowage": "offload",
    "stowed": "offloaded",
    "stowing": "offload",
    "tell": "send, follow_up, render, answer",
    "told": "events, frames, messages, output",
    "trouble": "error",
    "unbegun": "unstarted",
    "unheard": "discarding",
    "unsaid": "not convertible",
    "unsayable": "not convertible",
    "untold": "not recorded",
    "utter": "render",
    "vacate": "release",
    "voice": "block events",
    "wires": "http protocol",
}
"""What is used instead, by the word that is gone."""

ON_THE_WIRE = frozenset({"asked_at"})
"""Names in messages that processes of two versions exchange; they can't change."""

REPLACED_IN = {
    "services/gateway/": {"telling": "rendering, answering"},
    "services/worker/": {"telling": "emitter"},
}
"""The same for words that are gone from one part of the tree."""

REPLACED_IN_TESTS = {
    "babble": "emit_after_end",
    "crier": "ScriptedExecutor",
    "everybody": "all_agents, all_tasks, all users",
    "forgetful": "nondeterministic",
    "moody": "flaky",
    "oyez": "Reply",
    "quitter": "fails-once",
    "rudely": "by_reset",
    "stubborn": "ignores_cancel, ignores_sigterm",
}
"""The same in tests, where agents' names and texts count as well."""

REPLACED_IN_TEST_NAMES = {
    "asked": "requested, queried",
    "heard": "received",
    "said": "emitted, sent, reported",
    "says": "states, reports",
    "told": "sent, reported",
    "trouble": "error",
}
"""The same in names of tests."""


def parts_of(path: str, source: str) -> Iterator[str]:
    """Yield each part of each name in a module's path and in its code, in lower case."""
    names = re.split(r"[/.]", path)
    names += [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.NAME and token.string not in ON_THE_WIRE
    ]
    for name in names:
        yield from re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")


def replaced_in(path: str, source: str) -> set[str]:
    """Return the words that are gone and stand in a module all the same."""
    gone = set(REPLACED)
    gone.update(*(words for part, words in REPLACED_IN.items() if path.startswith(part)))
    return gone & set(parts_of(path, source))


def test_words_that_are_gone_stay_gone() -> None:
    sources = modules()
    assert sources
    found = {
        str(path.relative_to(ROOT)): sorted(words)
        for path in sources
        if (words := replaced_in(str(path.relative_to(ROOT)), path.read_text()))
    }
    assert not found, "REPLACED in this module has the words to use"


def test_no_test_module_is_named_for_them() -> None:
    paths = [str(path.relative_to(ROOT)) for path in modules_of_tests()]
    assert len(paths) > 100
    assert [path for path in paths if replaced_in(path, "")] == []


def gone_from_tests(source: str) -> set[str]:
    """Return the words that are gone from tests and stand in a module all the same."""
    return REPLACED_IN_TESTS.keys() & set(re.findall(r"[a-z]+", source.lower()))


def test_words_that_are_gone_from_tests_stay_gone() -> None:
    own = Path(__file__)
    paths = modules_of_tests()
    assert len(paths) > 100
    found = {str(path): gone_from_tests(path.read_text()) for path in paths if path != own}
    assert {path: words for path, words in found.items() if words} == {}


def test_words_that_are_gone_from_test_names_stay_gone() -> None:
    paths = modules_of_tests()
    names = [name for path in paths for name in re.findall(r"def (test_\w+)", path.read_text())]
    assert len(names) > 1000
    gone = REPLACED_IN_TEST_NAMES.keys()
    assert [name for name in names if gone & set(name.split("_"))] == []


@pytest.mark.parametrize("source", ['start("moody")', "class Moody: ...", "def is_moody(): ..."])
def test_a_word_that_comes_back_to_tests_is_noticed(source: str) -> None:
    assert gone_from_tests(source) == {"moody"}


@pytest.mark.parametrize(
    ("path", "source", "word"),
    [
        ("a/worker.py", "class WorkerSeat: ...", "seat"),
        ("a/worker.py", "taken_seats = 1", "seats"),
        ("a/outbox.py", "", "outbox"),
        ("services/gateway/a.py", "def tell_as(): ...", "tell"),
        ("services/worker/a.py", "self._telling = 1", "telling"),
        ("services/worker/a.py", "self._told = 1", "told"),
        ("a/worker.py", "async def f():\n    await ctx.retell()\n", "retell"),
    ],
)
def test_a_word_that_comes_back_is_noticed(path: str, source: str, word: str) -> None:
    assert replaced_in(path, source) == {word}


def test_text_is_not_looked_at() -> None:
    assert not replaced_in("services/task-state/a.py", "telling = 1")
    assert not replaced_in(str(Path("a/b.py")), '"""Has a seat."""\n# meanwhile\n')
