"""Signing in to the console at the token issuer, in a real browser."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.support import extra_services
from tests.support.console_page import problems_on_a_phone, say
from tests.support.credentials import Person, write
from tests.support.driven_browser import Page
from tests.support.fleet import Fleet
from tests.support.openid_provider import OpenIdProvider
from tests.support.plain_http import NO_TLS
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300)

_NO_TRIGGER = "document.body.innerText.includes('No trigger yet')"
_NO_SCHEDULE = "document.body.innerText.includes('No schedule yet')"
_SIGNED_IN = "document.querySelector('[title=\"Signed in as Ann\"]')"
_AT_ISSUER = "document.querySelector('dialog[open] .at-issuer')"
_ALERT = "document.querySelector('dialog[open] [role=alert]').innerText"
_HEAD = "required = true\npublic_cards = false"
_STREAMED = "[...document.querySelectorAll('.run')].map((one) => one.innerText).join()"
_READER = '[[role]]\nname = "reader"\noperations = ["read"]\n'


@pytest.fixture
async def provider() -> AsyncIterator[OpenIdProvider]:
    provider = OpenIdProvider()
    async with provider.served():
        yield provider


@contextmanager
def gateway(fleet: Fleet, folder: Path, file: Path) -> Iterator[str]:
    """Serve a gateway with that credentials file; yield its URL."""
    settings = {"HEADRACE_CREDENTIALS": str(file)}
    process, url = extra_services.gateway(folder / "gateway", fleet.nats_url, **settings)
    with process:
        yield url


async def sign_in(page: Page) -> None:
    """Go to the issuer, and approve there."""
    await page.until(_AT_ISSUER, "the page asks to sign in")
    await page.click("dialog[open] .at-issuer")
    await page.click("#approve")


async def test_a_user_signs_in_at_the_issuer_stays_signed_in_and_signs_out(
    fleet: Fleet, page: Page, tmp_path: Path, provider: OpenIdProvider
) -> None:
    await page.install_clock()
    provider.claims["scope"] = "openid reader"
    file = provider.write(tmp_path, f"{_HEAD}\n{_READER}", 'roles_claim = "scope"')
    with gateway(fleet, tmp_path, file) as url:
        await page.open(f"{url}/console/#/triggers")
        await sign_in(page)
        await page.until(_NO_TRIGGER, "the page that the user was on is shown")
        address = "location.pathname + location.search + location.hash"
        assert await page.evaluate(address) == "/console/#/triggers", "the code is gone"
        await page.until(_SIGNED_IN, "the user's name is known")
        await page.until("!document.querySelector('nav [href=\"#/chat\"]')", "nothing is sent")
        await page.evaluate("location.hash = '#/chat/echo'")
        await page.until("document.body.innerText.includes('do not permit this page')", "nor here")
        await page.evaluate("location.hash = '#/triggers'")
        assert {"Tasks", "Schedules"} <= set((await page.text("nav")).splitlines())
        await page.reload()
        await page.until(_NO_TRIGGER, "the tab stays signed in")
        assert provider.refreshed == 0
        await page.fast_forward(provider.lifetime - 5)
        await page.evaluate("location.hash = '#/schedules'")
        await page.until(_NO_SCHEDULE, "a token that is about to expire is renewed")
        assert provider.refreshed == 1
        await page.evaluate("document.querySelector('[title=\"Signed in as Ann\"]').click()")
        await page.until(_AT_ISSUER, "the page asks to sign in again")
        assert provider.signed_out == 1
        assert await page.evaluate("sessionStorage.length") == 0
        assert await problems_on_a_phone(page) == []
        await page.resize(390, 760)


async def test_an_expired_token_is_renewed_until_the_issuer_refuses(
    fleet: Fleet, page: Page, tmp_path: Path, provider: OpenIdProvider
) -> None:
    provider.lifetime, provider.states_lifetime = 1, False
    with gateway(fleet, tmp_path, provider.write(tmp_path, _HEAD)) as url:
        await page.open(f"{url}/console/#/triggers")
        await sign_in(page)
        await page.until(_NO_TRIGGER, "the user is signed in")
        await page.evaluate("location.hash = '#/chat/echo'")
        await page.type("[name=message]", "half a thought")
        await page.evaluate("document.querySelector('[name=message]').isSame = true; 0")
        await expiry(page, url)
        before = provider.refreshed
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        await eventually(partial(is_renewed, provider, before), "the token is renewed")
        draft = "document.querySelector('[name=message]')?.value === 'half a thought'"
        assert await page.evaluate(f"{draft} && document.querySelector('[name=message]').isSame")
        await page.reload()
        await page.until(draft, "what was not sent is there after a reload, too")
        await expiry(page, url)
        await page.evaluate("location.hash = '#/schedules'")
        await page.until(_NO_SCHEDULE, "the token that the gateway refused is renewed")
        assert provider.refreshed >= 1
        assert await page.evaluate("!document.querySelector('dialog[open]')")
        provider.revoke()
        await expiry(page, url)
        await page.evaluate("location.hash = '#/triggers'")
        await page.until(_AT_ISSUER, "the user is asked to sign in again")


async def is_renewed(provider: OpenIdProvider, before: int) -> bool:
    return provider.refreshed > before


async def expiry(page: Page, url: str) -> None:
    """Return once the gateway refuses the token that the tab has now."""
    issued = json.loads(await page.evaluate("sessionStorage.getItem('headrace.issued')"))
    headers = {"Authorization": f"Bearer {issued['token']}"}
    async with httpx.AsyncClient(verify=NO_TLS, headers=headers) as http:

        async def is_refused() -> bool:
            return (await http.get(f"{url}/v1/agents")).status_code == 401

        await eventually(is_refused, "the token has expired")


async def test_a_user_who_signs_out_in_the_middle_of_a_stream_sees_nothing_more_of_it(
    fleet: Fleet, page: Page, tmp_path: Path
) -> None:
    ann = Person("acme", "ann")
    with gateway(fleet, tmp_path, write(tmp_path / "credentials.toml", ann, head=_HEAD)) as url:
        await page.open(f"{url}/console/#/chat/counter")
        for attempt in range(2):
            await page.until("document.querySelector('dialog[open]')", "a token is asked for")
            await page.type("dialog[open] input", ann.token)
            await page.press("Enter", 13, "\r")
            if attempt == 0:
                await page.until("!document.querySelector('dialog[open]')", "it is given")
                await say(page, "400 20")
            await page.until(f"{_STREAMED}.includes('5 ')", "the answer streams")
            await page.type("[name=message]", "half a thought")
            await page.click(".sidebar-foot button:not(.icon)")
            await page.until("document.querySelector('dialog[open]')", "nobody is signed in")
            assert await page.evaluate(_STREAMED) == ""
            assert await page.evaluate("sessionStorage.length") == 0


async def test_answers_that_the_tab_did_not_ask_for_sign_nobody_in(
    fleet: Fleet, page: Page, tmp_path: Path, provider: OpenIdProvider
) -> None:
    with gateway(fleet, tmp_path, provider.write(tmp_path, _HEAD)) as url:
        await page.open(f"{url}/console/?code=stolen&state=guessed#/triggers")
        await page.until(f"{_ALERT}.includes('not begun in this tab')", "no sign-in was begun")
        await page.click("dialog[open] .at-issuer")
        forged = "document.querySelector('#approve').href.replace(/state=[^&]*/, 'state=forged')"
        await page.until("document.querySelector('#approve')", "the issuer's page is there")
        await page.evaluate(f"location.assign({forged})")
        await page.until(f"{_ALERT}.includes('not begun in this tab')", "another state is refused")
        provider.nonce = "another"
        await sign_in(page)
        await page.until(f"{_ALERT}.includes('not for this sign-in')", "another nonce is refused")
        provider.nonce = None
        await page.click("dialog[open] .at-issuer")
        await page.click("#refuse")
        await page.until(f"{_ALERT}.includes('access_denied')", "the issuer's refusal is shown")
        assert await page.evaluate("sessionStorage.length") == 0
        await sign_in(page)
        await page.until(_SIGNED_IN, "the user may sign in after all")


async def test_a_fleet_without_credentials_has_nothing_to_sign_in_with(
    fleet: Fleet, page: Page
) -> None:
    await page.open(f"{fleet.gateways[0]}/console/#/triggers")
    await page.until("document.querySelector('nav')", "the page is there")
    answered = (
        "performance.getEntriesByType('resource').some((one) => one.name.endsWith('sign-in.json'))"
    )
    await page.until(answered, "the page knows how to sign in")
    assert "Sign in" not in await page.text("body")
