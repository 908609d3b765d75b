"""The console's files as browsers get them, and what is not for browsers."""

import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from headrace_gateway.console.pages import ConsolePages, site
from headrace_gateway.server.auth.credentials_file import KnownCredentials, SignIn, TokenIssuer

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
ASSETS = sorted(name for name in site() if name.startswith("assets/"))


async def card(_: Request) -> Response:
    return PlainTextResponse("the card")


def gateway() -> Starlette:
    return Starlette(routes=[*ConsolePages().routes(), Route("/", card)])


@pytest.fixture(params=["", "/fleet"], ids=["at the root", "mounted"])
async def http(request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway's pages, also as another application has mounted it."""
    app = Starlette(routes=[Mount(request.param, gateway())]) if request.param else gateway()
    base = f"http://gateway{request.param}"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base) as http:
        yield http


async def test_a_browser_is_sent_from_the_root_and_finds_all_it_needs(
    http: httpx.AsyncClient,
) -> None:
    page = await http.get("/", headers=BROWSER, follow_redirects=True)
    assert page.url.path.endswith("/console/")
    assert page.headers["Cache-Control"] == "no-cache"
    named = re.findall(r'(?:src|href)="(assets/[^"]+)"', page.text)
    assert sorted(named) == ASSETS
    found = [await http.get(f"{page.url}{name}") for name in named]
    assert [answer.status_code for answer in found] == [200, 200]
    caching = {answer.headers["Cache-Control"] for answer in found}
    assert caching == {"public, max-age=31536000, immutable"}


def test_the_files_are_small_enough_for_a_phone() -> None:
    sizes = {name: len(file.compressed) for name, file in site().items() if name in ASSETS}
    assert sum(sizes.values()) < 200_000, sizes


async def test_other_clients_have_the_root_as_before(http: httpx.AsyncClient) -> None:
    answer = await http.get("/", headers={"Accept": "*/*"})
    assert answer.text == "the card"


async def test_a_folder_without_its_slash_leads_to_the_page(http: httpx.AsyncClient) -> None:
    page = await http.get("/console", follow_redirects=True)
    assert page.url.path.endswith("/console/")
    assert page.is_success


@pytest.mark.parametrize("path", ["", *ASSETS, "nothing.js", "%2e%2e/pages.py"])
async def test_every_response_is_guarded(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(f"/console/{path}")
    policy = answer.headers["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.is_success == (path in ("", *ASSETS))


async def test_only_in_development_a_page_connects_to_other_gateways() -> None:
    policies = list[str]()
    for loopback in (False, True):
        app = Starlette(routes=ConsolePages(loopback=loopback).routes())
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            policies.append((await http.get("/console/")).headers["Content-Security-Policy"])
    assert "connect-src 'self';" in policies[0]
    assert "connect-src 'self' http://127.0.0.1:* http://localhost:*;" in policies[1]


async def test_a_page_signs_in_at_the_issuer_and_connects_to_its_origin_only() -> None:
    sign_in = SignIn(
        authorization_url="https://auth.test/authorize",
        token_url="https://tokens.test:8443/token",
        console_client="console",
    )
    issuer = TokenIssuer(
        issuer="https://auth.test",
        audience="headrace",
        algorithms=["ES256"],
        keys=Path("keys.json"),
        sign_in=sign_in,
    )
    programs = sign_in.model_copy(update={"console_client": None})
    found = list[tuple[object, str]]()
    for one in (sign_in, programs):
        jwt = issuer.model_copy(update={"sign_in": one})
        app = Starlette(routes=ConsolePages(partial(KnownCredentials, jwt=jwt)).routes())
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            page, answer = [await http.get(f"/console/{name}") for name in ("", "sign-in.json")]
            policy = page.headers["Content-Security-Policy"]
            assert policy == answer.headers["Content-Security-Policy"]
            found.append((answer.json(), policy.partition("connect-src ")[2].partition(";")[0]))
    offered = {
        "url": "https://auth.test",
        "clientId": "console",
        "authorizationUrl": "https://auth.test/authorize",
        "tokenUrl": "https://tokens.test:8443/token",
        "endSessionUrl": "",
        "scopes": ["openid"],
    }
    assert found == [
        ({"credentials": True, "issuer": offered}, "'self' https://tokens.test:8443"),
        ({"credentials": True}, "'self'"),
    ]


async def test_a_fleet_without_credentials_offers_no_sign_in(http: httpx.AsyncClient) -> None:
    answer = await http.get("/console/sign-in.json")
    assert answer.json() == {"credentials": False}
    assert answer.headers["Cache-Control"] == "no-store"


async def test_a_page_that_the_browser_has_is_not_sent_again(http: httpx.AsyncClient) -> None:
    first = await http.get("/console/")
    second = await http.get("/console/", headers={"If-None-Match": first.headers["ETag"]})
    assert (second.status_code, second.content) == (304, b"")


async def test_a_client_that_takes_no_gzip_gets_none(http: httpx.AsyncClient) -> None:
    plain = await http.get("/console/", headers={"Accept-Encoding": "identity"})
    packed = await http.get("/console/", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert plain.text == packed.text
