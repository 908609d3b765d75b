"""A plugin for the kit's pytest: its clients activate the extension that the card requires.

The kit has a test for clients that do not, and none of its other clients would get any further.
Those of that test stay as they are.
"""

from importlib import import_module
from typing import Any

import httpx
import pytest

EXTENSION = "urn:a2a:tck:required-extension"
_HEADER = "A2A-Extensions"
_WITHOUT = "TestCapabilityExtensionRequired"


class _Activating:
    """Whether what is sent now activates the extension."""

    on = True


def pytest_configure() -> None:
    """Have everything that is sent name the extension, fixtures' requests too."""
    _activate_over_http()
    channel = import_module("grpc._channel")
    for kind in ("_UnaryUnaryMultiCallable", "_UnaryStreamMultiCallable"):
        _activate_over_grpc(getattr(channel, kind))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out the test that wants its clients not to."""
    owner = getattr(item, "cls", None)
    _Activating.on = owner is None or owner.__name__ != _WITHOUT


def _activate_over_http() -> None:
    send = httpx.Client.send

    def activated(client: httpx.Client, sent: httpx.Request, **kwargs: Any) -> httpx.Response:  # noqa: ANN401 - as httpx
        if _Activating.on:
            stated = sent.headers.get(_HEADER)
            sent.headers[_HEADER] = f"{stated}, {EXTENSION}" if stated else EXTENSION
        return send(client, sent, **kwargs)

    httpx.Client.send = activated  # type: ignore[method-assign, assignment]


def _activate_over_grpc(kind: Any) -> None:  # noqa: ANN401 - gRPC's own
    call = kind.__call__

    def activated(self: Any, request: Any, *, metadata: Any = None, **kwargs: Any) -> Any:  # noqa: ANN401 - as gRPC
        named = ((_HEADER.lower(), EXTENSION),) if _Activating.on else ()
        return call(self, request, metadata=(*(metadata or ()), *named), **kwargs)

    kind.__call__ = activated
