"""Checkpoints: what fits into a message's header, and what is refused before it is sent."""

from typing import Any

import pytest

from headrace import MalformedOutput
from headrace.log.append import HEADER_ROOM
from headrace.sdk.checkpoint import MOST, Checkpoint, decode


def test_the_largest_data_fits_beside_ids_and_steps() -> None:
    data = "ü" * (MOST // 2 - 1)
    checkpoint = Checkpoint(data, {f"uuid order-{n}": 1 for n in range(100)}, 7, [("pay", 1)])
    header = checkpoint.encode()
    assert header.isascii()
    assert len(header) < HEADER_ROOM - 1024
    assert decode(header) == checkpoint


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"ids": {f"uuid order-{n}": 1 for n in range(2000)}}, r"2000 names .* ctx\.random\(\)"),
        ({"steps": [("pay", f"order-{n}") for n in range(1500)]}, "1500 recorded steps"),
    ],
)
def test_more_than_a_header_holds_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(MalformedOutput, match=reason):
        Checkpoint(**given).encode()
