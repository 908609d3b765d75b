from pathlib import Path
from typing import Any

import pytest

from headrace_gateway.server.development import is_development
from headrace_gateway.settings import GatewaySettings

SOCKET = Path("/tmp/control")  # noqa: S108  # nothing is opened


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, False),
        ({"dev_control": SOCKET}, True),
        ({"dev_control": SOCKET, "http_host": "::1"}, True),
        ({"dev_control": SOCKET, "http_host": "0.0.0.0"}, False),  # noqa: S104  # not bound
        ({"dev_control": SOCKET, "http_host": "10.0.0.1"}, False),
    ],
)
def test_development_needs_a_supervisor_and_loopback(
    settings: dict[str, Any],
    expected: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    assert is_development(GatewaySettings.model_validate(settings)) is expected
