"""Make property tests reproducible: one seed, independent of process and order of tests."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests.support.resuming_sizes import SEED, sized


def draw_by_seed(config: pytest.Config) -> None:
    """Have every property test draw from HEADRACE_SEED and from nothing else."""
    settings.register_profile(
        "headrace",
        settings(),
        max_examples=sized(30, 100),  # The same ones each time, so that more find little more.
        derandomize=False,  # Hypothesis' default where it finds itself in CI: no seed would count.
        deadline=None,  # A slow machine is no fault.
        suppress_health_check=[HealthCheck.too_slow],
        database=None,  # What failed before would be drawn first.
    )
    settings.load_profile("headrace")
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(SEED)
    # Hypothesis also draws constants out of the modules of ours that a process has loaded by then,
    # and has no setting against it; `tests/unit/tests/support/test_draws.py` fails where this is
    # not enough.
    providers._get_local_constants = _no_constants


_NONE = Constants()


def _no_constants() -> Constants:
    return _NONE
