"""Tests and fixtures that run on their module's loop, where servers in the process live on."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
import pytest_asyncio

module_fixture = pytest_asyncio.fixture(scope="module", loop_scope="module")
"""One for all tests of a module: starting and stopping services takes most of a test's time."""


def run_on_module_loops(items: Iterable[pytest.Item], folder: Path) -> None:
    """Run the tests of a folder on their modules' loops, where the fixtures are.

    All tests are `items`: to compare thousands of paths part by part took a fifth of a collection.
    """
    within = f"{folder}{os.sep}"
    for item in items:
        if str(item.path).startswith(within) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)
