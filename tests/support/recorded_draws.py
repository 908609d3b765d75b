"""A pytest plugin that records the draws of each property test, to compare two runs.

Each line of the file that HEADRACE_DRAWS names is a test's id and a hash of all of its choices.
"""

import hashlib
import os
from collections import defaultdict
from pathlib import Path

from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.internal.conjecture.engine import ConjectureRunner

_hashes = defaultdict[str, "hashlib._Hash"](hashlib.sha256)


def pytest_configure() -> None:
    """Listen to the engine: it is the only one that knows every example."""
    test_function = ConjectureRunner.test_function

    def recorded(runner: ConjectureRunner, data: ConjectureData) -> None:
        try:
            test_function(runner, data)
        finally:
            test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
            _hashes[test].update(repr(data.choices).encode(errors="surrogatepass"))

    ConjectureRunner.test_function = recorded  # type: ignore[assignment,method-assign]


def pytest_unconfigure() -> None:
    """Add what this process drew to the file."""
    with Path(os.environ["HEADRACE_DRAWS"]).open("a") as file:
        file.writelines(f"{test} {drawn.hexdigest()}\n" for test, drawn in _hashes.items())
