"""Sizes and probabilities of the tests on resuming: small in CI, full under `make soak`."""

import os
import secrets

IS_SOAK = bool(os.environ.get("HEADRACE_SOAK"))

SEED = int(os.environ.get("HEADRACE_SEED") or (secrets.randbelow(2**32) if IS_SOAK else 1))
"""Of everything drawn at random; printed at the end, and HEADRACE_SEED brings it back.

The same each time, so that what turns red is a change's doing; `make soak` draws anew.
"""

os.environ["HEADRACE_SEED"] = str(SEED)  # The processes that share the tests draw alike.


def sized[Size: (int, float)](small: Size, full: Size) -> Size:
    """Return `full` under `make soak`, else `small`."""
    return full if IS_SOAK else small
