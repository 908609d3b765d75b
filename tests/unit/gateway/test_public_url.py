"""The addresses that a call's client can reach the gateway at."""

import pytest
from starlette.requests import HTTPConnection

from headrace_gateway.server.public_url import public_grpc, public_url
from headrace_gateway.settings import GatewaySettings


def connection(host: str | None, scheme: str = "http") -> HTTPConnection:
    headers = [] if host is None else [(b"host", host.encode())]
    server = ("10.1.2.3", 8000)
    scope = {"type": "http", "scheme": scheme, "path": "/", "headers": headers, "server": server}
    return HTTPConnection(scope)


@pytest.mark.parametrize(
    ("host", "scheme", "url", "grpc"),
    [
        ("fleet.test", "http", "http://fleet.test", "fleet.test:50051"),
        ("fleet.test:8000", "https", "https://fleet.test:8000", "fleet.test:50051"),
        ("fleet.test", "wss", "https://fleet.test", "fleet.test:50051"),
        ("127.0.0.1:8000", "ws", "http://127.0.0.1:8000", "127.0.0.1:50051"),
        ("[::1]:8000", "http", "http://[::1]:8000", "[::1]:50051"),
        ("[::.::]", "http", "http://[::.::]", "10.1.2.3:50051"),
        (None, "http", "http://127.0.0.1:8000", "10.1.2.3:50051"),
    ],
)
def test_a_call_has_the_address_that_its_client_used(
    host: str | None, scheme: str, url: str, grpc: str
) -> None:
    settings = GatewaySettings(http_host="127.0.0.1", http_port=8000, grpc_port=50051)
    found = connection(host, scheme)
    assert (public_url(found, settings), public_grpc(found, settings)) == (url, grpc)


@pytest.mark.parametrize(
    ("stated", "url"),
    [(None, "http://fleet.test/agents"), ("https://public.test/a/", "https://public.test/a")],
)
def test_a_mounted_gateways_url_ends_with_its_mount_unless_a_setting_has_it(
    stated: str | None, url: str
) -> None:
    settings = GatewaySettings(public_url=stated, grpc_port=0)
    found = connection("fleet.test")
    found.scope["root_path"] = "/agents/"
    assert (public_url(found, settings), public_grpc(found, settings)) == (url, None)
