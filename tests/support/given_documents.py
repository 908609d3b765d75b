"""Documents of others that tests hold the project to, and fixtures of our own in their form.

The project contains no copy of the documents: a run without them takes the code of the fixtures.
"""

import os
from pathlib import Path

import pytest

VARIABLE = "HEADRACE_TEST_DOCUMENTS"
OWN = Path(__file__).with_name("documents")

_GIVEN = Path(os.environ.get(VARIABLE) or os.devnull)


def path_of(name: str) -> Path:
    """Return where the document is, or the fixture in its place."""
    return _GIVEN / name if (_GIVEN / name).exists() else OWN / name


def needs(*names: str) -> pytest.MarkDecorator:
    """Return the mark of a test that compares with the documents themselves."""
    missing = [name for name in names if path_of(name).is_relative_to(OWN)]
    reason = (
        f"compares with documents of other projects ({', '.join(missing)}), of which this one may "
        f"contain no copy; {VARIABLE} names a folder that has them"
    )
    return pytest.mark.skipif(bool(missing), reason=reason)
