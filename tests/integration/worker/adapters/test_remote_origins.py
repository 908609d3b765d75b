"""What was given for an outside agent reaches nobody else, wherever its card or answers lead."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from a2a.types import (
    AgentCard,
    ClientCredentialsOAuthFlow,
    OAuth2SecurityScheme,
    OAuthFlows,
    SecurityScheme,
)

from headrace.adapters import ApiKey, Bearer, ClientCredentials
from tests.integration.worker.conftest import Working
from tests.support.log_reading import answer, folded, state, words
from tests.support.scripted_executor import BINDINGS, ScriptedExecutor, outside_agent
from tests.support.sdk_server import SdkServer, sdk_server
from tests.support.task_submitter import TaskSubmitter

GIVEN: dict[str, Callable[[SdkServer], dict[str, Any]]] = {
    "key": lambda _: {"credentials": ApiKey("s3cret")},
    "token": lambda _: {"credentials": Bearer("s3cret")},
    "client": lambda own: {"credentials": ClientCredentials("me", "s3cret", f"{own.url}/token")},
    "headers": lambda _: {"headers": {"X-Key": "s3cret"}},
    "nothing": lambda _: {},
}
REDIRECTS = (301, 302, 303, 307, 308)


@pytest.fixture
async def elsewhere() -> AsyncIterator[SdkServer]:
    """An agent that would serve whoever comes; it goes by another host name."""
    async with sdk_server(ScriptedExecutor()) as server:
        yield server


def was_left_alone(elsewhere: SdkServer) -> bool:
    """Tell whether nobody has so much as connected."""
    return elsewhere.proxy.taken == elsewhere.by_grpc.taken == 0


def url_of(elsewhere: SdkServer) -> str:
    return elsewhere.url.replace("127.0.0.1", "localhost")


def leading_to(elsewhere: SdkServer, *, own_too: bool) -> Callable[[AgentCard], None]:
    """Return what puts the other agent's interfaces first into a card, or in place of its own."""
    urls = {
        "JSONRPC": f"{url_of(elsewhere)}/rpc",
        "HTTP+JSON": url_of(elsewhere),
        "GRPC": elsewhere.by_grpc.url.replace("http://127.0.0.1", "localhost"),
    }

    def shape(card: AgentCard) -> None:
        own = AgentCard()
        own.CopyFrom(card)
        for each in card.supported_interfaces:
            each.url = urls[each.protocol_binding]
        if own_too:
            card.supported_interfaces.extend(own.supported_interfaces)

    return shape


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("given", GIVEN)
async def test_a_card_that_leads_elsewhere_alone_is_refused(
    submitter: TaskSubmitter, working: Working, elsewhere: SdkServer, binding: str, given: str
) -> None:
    shape = leading_to(elsewhere, own_too=False)
    async with (
        sdk_server(ScriptedExecutor(), shape_card=shape) as server,
        working(await outside_agent(server.url, binding=binding, **GIVEN[given](server))),
    ):
        done = await folded(await submitter.start("outside", "x"))
    assert state(done) == "REJECTED"
    assert "names only interfaces at other origins" in words(done)
    assert was_left_alone(elsewhere)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_of_a_cards_interfaces_those_of_its_own_origin_are_used(
    submitter: TaskSubmitter, working: Working, elsewhere: SdkServer, binding: str
) -> None:
    shape = leading_to(elsewhere, own_too=True)
    async with (
        sdk_server(ScriptedExecutor(), shape_card=shape) as server,
        working(await outside_agent(server.url, binding=binding, credentials=Bearer("s3cret"))),
    ):
        done = await folded(await submitter.start("outside", "x"))
    assert (state(done), answer(done)) == ("COMPLETED", "Reply: x"), words(done)
    assert was_left_alone(elsewhere)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_redirects_are_not_followed(
    submitter: TaskSubmitter, working: Working, elsewhere: SdkServer, binding: str
) -> None:
    async with sdk_server(ScriptedExecutor()) as server:
        for given, status in zip(GIVEN, REDIRECTS, strict=False):
            made = await outside_agent(server.url, binding=binding, **GIVEN[given](server))
            server.redirect = status, url_of(elsewhere)
            async with working(made):
                done = await folded(await submitter.start("outside", "x"))
            server.redirect = None
            assert state(done) in {"REJECTED", "FAILED"}
    assert was_left_alone(elsewhere)


@pytest.mark.parametrize("names_own", [False, True])
async def test_a_cards_token_url_gets_the_secret_at_the_agents_own_origin_only(
    submitter: TaskSubmitter, working: Working, elsewhere: SdkServer, *, names_own: bool
) -> None:
    def shape(card: AgentCard) -> None:
        base = url_of(elsewhere)
        if names_own:
            base = card.supported_interfaces[0].url.removesuffix("/rpc")
        flow = ClientCredentialsOAuthFlow(token_url=f"{base}/token")
        scheme = OAuth2SecurityScheme(flows=OAuthFlows(client_credentials=flow))
        card.security_schemes["oauth"].CopyFrom(SecurityScheme(oauth2_security_scheme=scheme))

    async with (
        sdk_server(ScriptedExecutor(), shape_card=shape) as server,
        working(await outside_agent(server.url, credentials=ClientCredentials("me", "s3cret"))),
    ):
        done = await folded(await submitter.start("outside", "x"))
        assert len(server.issued) == names_own
    assert state(done) == ("COMPLETED" if names_own else "REJECTED")
    assert names_own or "set token_url to allow it" in words(done)
    assert was_left_alone(elsewhere)
