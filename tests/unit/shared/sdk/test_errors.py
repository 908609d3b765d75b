"""What authors and clients read of a delegation that gave no result."""

import pytest

from headrace.sdk.errors import DelegationFailed, DelegationRefused


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            DelegationFailed("writer", "the task failed"),
            "delegation to 'writer' failed: the task failed",
        ),
        (
            DelegationRefused("writer", "budget", "no tokens"),
            "delegation to 'writer' was refused: no tokens",
        ),
        (DelegationRefused("", "not-waiting", "no child"), "delegation was refused: no child"),
    ],
)
def test_it_names_the_agent_if_there_is_one_and_the_reason(
    error: DelegationFailed, text: str
) -> None:
    assert str(error) == text
