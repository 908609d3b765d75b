"""What was given for an outside agent's origin goes there, whatever its card says."""

import time
from base64 import b64decode

import httpx
import pytest
from a2a.types import (
    AgentCard,
    AgentInterface,
    ClientCredentialsOAuthFlow,
    OAuth2SecurityScheme,
    OAuthFlows,
    SecurityScheme,
)

from headrace.adapters import Bearer, ClientCredentials
from headrace.adapters.a2a.credentials import AccessRefused, OwnCard, _token_url
from headrace.adapters.a2a.remote_client import Place, _within
from headrace.sdk.errors import Retryable

OWN = "https://agent.test/a"


def card(*interfaces: tuple[str, str]) -> AgentCard:
    return AgentCard(
        supported_interfaces=[
            AgentInterface(protocol_binding=binding, url=url) for binding, url in interfaces
        ]
    )


def kept(place: Place, *interfaces: tuple[str, str]) -> list[str]:
    return [each.url for each in _within(place, card(*interfaces)).supported_interfaces]


@pytest.mark.parametrize(
    "place",
    [Place(OWN, credentials=Bearer("t")), Place(OWN, headers={"X-Key": "k"}), Place(OWN)],
    ids=["credentials", "headers", "nothing"],
)
def test_interfaces_elsewhere_are_not_used(place: Place) -> None:
    own = ("JSONRPC", "https://agent.test:443/rpc")
    elsewhere = [
        ("JSONRPC", "https://evil.test/rpc"),
        ("JSONRPC", "http://agent.test/rpc"),
        ("HTTP+JSON", "https://agent.test:8443/"),
        ("HTTP+JSON", "https://agent.test@evil.test/"),
        ("GRPC", "evil.test:443"),
        ("GRPC", "agent.test:50051"),
        ("GRPC", "unix:/run/service.sock"),
        ("JSONRPC", "http://169.254.169.254/latest"),
        ("JSONRPC", "http://127.0.0.1:8222/"),
    ]
    assert kept(place, *elsewhere, own) == [own[1]]
    with pytest.raises(AccessRefused, match="names only interfaces at other origins"):
        kept(place, *elsewhere)


def test_grpc_may_have_a_port_of_its_own() -> None:
    place = Place(OWN, credentials=Bearer("t"), secure_grpc=True)
    assert kept(place, ("GRPC", "agent.test:50051")) == ["agent.test:50051"]


@pytest.mark.parametrize(
    "address",
    [
        # gRPC takes what stands before the colon for the host, and a port as far as it is a number.
        "evil.test:443@agent.test",
        "evil.test@agent.test:443",
        "agent.test/evil.test:443",
        "agent.test,evil.test",
        "dns://agent.test/evil.test:443",
        "agent.test#.evil.test",
        "https://agent.test?x=evil.test",
        "unix:agent.test",
        "",
    ],
)
def test_an_address_of_grpc_is_a_host_and_a_port_and_no_more(address: str) -> None:
    place = Place(OWN, credentials=Bearer("t"), secure_grpc=True)
    with pytest.raises(AccessRefused):
        kept(place, ("GRPC", address))


def test_interfaces_at_origins_that_are_named_are_used() -> None:
    place = Place(OWN, origins=["https://api.test", "http://inside.test:8000"])
    named = ("https://api.test/rpc", "http://inside.test:8000/a")
    elsewhere = ("https://api.test:8443/", "https://inside.test:8000/", "https://other.test/")
    found = kept(place, *(("JSONRPC", url) for url in (*elsewhere, *named)))
    assert found == list(named)
    assert kept(place, ("GRPC", "inside.test:50051")) == ["inside.test:50051"]


@pytest.mark.parametrize("url", ["https://agent.test/token", "https://evil.test/token"])
def test_a_clients_secret_goes_to_a_cards_token_url_of_its_own_origin_only(url: str) -> None:
    flow = OAuthFlows(client_credentials=ClientCredentialsOAuthFlow(token_url=url))
    scheme = SecurityScheme(oauth2_security_scheme=OAuth2SecurityScheme(flows=flow))
    own = OwnCard(AgentCard(security_schemes={"oauth": scheme}), OWN)
    assert ClientCredentials("me", "secret").token_url == ""
    if "evil" not in url:
        assert _token_url(own) == url
        return
    with pytest.raises(AccessRefused, match="set token_url"):
        _token_url(own)


def endpoint(answer: httpx.Response, requests: list[httpx.Request]) -> httpx.AsyncClient:
    """Return a client whose requests a token endpoint answers."""

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return answer

    return httpx.AsyncClient(transport=httpx.MockTransport(handle))


async def test_a_clients_id_and_secret_are_encoded_as_in_a_form() -> None:
    requests: list[httpx.Request] = []
    http = endpoint(httpx.Response(200, json={"access_token": "t"}), requests)
    credentials = ClientCredentials("me:you", "a+b%c d/é", "https://login.test/token")
    assert await credentials.headers(None, http) == {"Authorization": "Bearer t"}
    _, _, basic = requests[0].headers["Authorization"].partition(" ")
    assert b64decode(basic) == b"me%3Ayou:a%2Bb%25c+d%2F%C3%A9"


@pytest.mark.parametrize(
    ("stated", "lifetime"),
    [
        ("600", 600.0),
        ('"600"', 600.0),
        ("600.5", 600.5),
        *((stated, 300.0) for stated in ("null", "0", "-5", '"soon"', "[]", "NaN", "Infinity")),
        ("1e999", 300.0),
        ("9" * 400, 300.0),
    ],
)
async def test_a_token_whose_lifetime_is_not_stated_is_kept_for_a_while(
    stated: str, lifetime: float
) -> None:
    requests: list[httpx.Request] = []
    body = f'{{"access_token": "t", "expires_in": {stated}}}'
    http = endpoint(httpx.Response(200, text=body), requests)
    credentials = ClientCredentials("me", "s", "https://login.test/token")
    before = time.monotonic()
    for _ in range(2):
        assert await credentials.headers(None, http) == {"Authorization": "Bearer t"}
    assert len(requests) == 1
    assert lifetime - 31 <= credentials._until - before <= lifetime


@pytest.mark.parametrize("token", ["null", '""', "5", '"a\\nb"', '"é"'])
async def test_a_token_that_is_none_is_refused(token: str) -> None:
    http = endpoint(httpx.Response(200, text=f'{{"access_token": {token}}}'), [])
    credentials = ClientCredentials("me", "s", "https://login.test/token")
    for _ in range(2):
        with pytest.raises(AccessRefused, match="answered 200 without a token"):
            await credentials.headers(None, http)


async def test_a_busy_token_endpoint_states_when_to_ask_again() -> None:
    http = endpoint(httpx.Response(503, headers={"Retry-After": "7"}), [])
    credentials = ClientCredentials("me", "s", "https://login.test/token")
    with pytest.raises(Retryable, match="answered 503") as busy:
        await credentials.headers(None, http)
    assert busy.value.after == 7.0
