"""How large the tests on resuming are, and by what chance: small in CI, full under `make soak`."""

import os
import secrets

SEED = int(os.environ.get("HEADRACE_SEED") or secrets.randbelow(2**32))
"""Of everything drawn at random; printed at the end, and HEADRACE_SEED brings it back."""

os.environ["HEADRACE_SEED"] = str(SEED)  # The processes that share the tests draw alike.


def sized(small: int, full: int) -> int:
    """Return `full` under `make soak`, else `small`."""
    return full if os.environ.get("HEADRACE_SOAK") else small
