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


@pytest.fixture(autouse=True)
def activating(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything that the test sends name the extension."""
    if request.cls is not None and request.cls.__name__ == _WITHOUT:
        return
    send = httpx.Client.send

    def activated(client: httpx.Client, sent: httpx.Request, **kwargs: Any) -> httpx.Response:  # noqa: ANN401 - as httpx
        stated = sent.headers.get(_HEADER)
        sent.headers[_HEADER] = f"{stated}, {EXTENSION}" if stated else EXTENSION
        return send(client, sent, **kwargs)

    monkeypatch.setattr(httpx.Client, "send", activated)
    _activate_over_grpc(monkeypatch)


def _activate_over_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = import_module("grpc._channel")
    for kind in ("_UnaryUnaryMultiCallable", "_UnaryStreamMultiCallable"):
        _activate_calls(monkeypatch, getattr(channel, kind))


def _activate_calls(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:  # noqa: ANN401 - gRPC's own
    call = kind.__call__

    def activated(self: Any, request: Any, *, metadata: Any = None, **kwargs: Any) -> Any:  # noqa: ANN401 - as gRPC
        named = (*(metadata or ()), (_HEADER.lower(), EXTENSION))
        return call(self, request, metadata=named, **kwargs)

    monkeypatch.setattr(kind, "__call__", activated)
