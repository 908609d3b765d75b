"""Documents of others that tests hold the project to; it contains no copy of them."""

import os
from pathlib import Path

import pytest

VARIABLE = "HEADRACE_TEST_DOCUMENTS"

FOLDER = Path(os.environ.get(VARIABLE) or os.devnull)
"""Where they are."""


def needs(*names: str) -> pytest.MarkDecorator:
    """Return the mark of a test that reads these, which starts nothing without them."""
    missing = [name for name in names if not (FOLDER / name).exists()]
    reason = f"{VARIABLE} names no folder with {', '.join(missing)}"
    return pytest.mark.skipif(bool(missing), reason=reason)
