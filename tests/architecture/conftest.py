"""What the tests of this folder keep while they run in a process."""

from collections.abc import Iterator

import pytest

from tests.architecture.tree import parsed


@pytest.fixture(scope="package", autouse=True)
def _trees_are_let_go() -> Iterator[None]:
    """Drop the trees after the last test: garbage collections of later ones would visit them."""
    yield
    parsed.cache_clear()
