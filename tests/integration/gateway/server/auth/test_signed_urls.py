"""Signed URLs of files: what a page's image loads, and nothing else."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import CHUNK, FileOwner, FileStore
from headrace.model.events import Json
from headrace.model.file_links import SCHEME
from headrace.model.subjects import encode_token
from headrace.model.task import TaskKey
from headrace.signing import SigningKeys, make_pem
from headrace_gateway.refusals import SignatureRefused
from headrace_gateway.server.auth.signed_urls import LIFETIME, SignedFile, SignedUrls
from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import message
from tests.support.credentials import ANN, BOB, EVE, Person, write
from tests.support.nginx import Nginx, needs_nginx
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.servers import ports

OPERATOR = Person("acme", "operator", ("on-call",))
READER_ELSEWHERE = Person(ANN.tenant, ANN.owner + ".au", ("elsewhere",))
ROLES = """
[[role]]
name = "on-call"
operator = true
operations = ["read"]

[[role]]
name = "elsewhere"
agents = ["ask"]
operations = ["read"]
"""
CONTENT = b"\x89PNG" + bytes(2 * CHUNK)
FOREIGN = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
"""What a browser sends with an image of another site's page."""


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    people = (ANN, BOB, EVE, OPERATOR, READER_ELSEWHERE)
    file = write(tmp_path_factory.mktemp("c") / "credentials.toml", *people, head=ROLES)
    return {"credentials": file, "trusted_proxies": ["127.0.0.1"], "audit": "all"}


@asynccontextmanager
async def page_of(url: str, person: Person | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client that is signed in as `person`, or nobody's."""
    headers = {} if person is None else person.bearer
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, verify=NO_TLS) as http:
        yield http


@pytest_asyncio.fixture(loop_scope="module")
async def ann(gateway: str) -> AsyncIterator[httpx.AsyncClient]:
    async with page_of(gateway, ANN) as http:
        yield http


@pytest_asyncio.fixture(loop_scope="module")
async def nobody(gateway: str) -> AsyncIterator[httpx.AsyncClient]:
    async with page_of(gateway) as http:
        yield http


@dataclass(frozen=True)
class Stored:
    """A file of a task of Ann's."""

    key: TaskKey
    name: str
    path: str


@pytest.fixture
def files(bus: Bus) -> FileStore:
    return FileStore(bus)


async def stored(
    http: httpx.AsyncClient, files: FileStore, media_type: str = "image/png", name: str = "a.png"
) -> Stored:
    """Have a task with a file; `http` is its owner's client."""
    sent = await http.post("/v1/agents/assistant/message:send", json=message("x"))
    task = sent.raise_for_status().json()["task"]
    key = TaskKey(encode_token(ANN.tenant), "assistant", task["id"])
    owner = FileOwner(encode_token(ANN.owner), task["contextId"])
    link = await files.put(key, owner, CONTENT, name, media_type)
    return Stored(key, link.rpartition("/")[2], f"/v1/agents/{link.removeprefix(SCHEME)}")


async def signed(http: httpx.AsyncClient, file: Stored) -> str:
    answer = (await http.post(f"{file.path}:sign")).raise_for_status()
    assert answer.headers["cache-control"] == "no-store"
    body: Json = answer.json()
    assert body.keys() == {"url", "expiresInSeconds"}
    assert body["expiresInSeconds"] == LIFETIME
    return str(body["url"])


def reason(answer: httpx.Response) -> tuple[int, str]:
    [info] = [one for one in answer.json()["error"]["details"] if "reason" in one]
    return answer.status_code, info["reason"]


async def test_any_gateway_answers_with_the_file_and_no_credentials(
    ann: httpx.AsyncClient,
    nobody: httpx.AsyncClient,
    gateway: str,
    another_gateway: str,
    files: FileStore,
) -> None:
    file = await stored(ann, files)
    assert (await nobody.get(file.path)).status_code == 401
    url = await signed(ann, file)
    assert url.startswith(f"{gateway}/v1/signed-files/")
    for one in (url, url.replace(gateway, another_gateway)):
        answer = await nobody.get(one, headers=FOREIGN)
        assert (answer.status_code, answer.content) == (200, CONTENT)
        head = await nobody.head(one, headers=FOREIGN)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(CONTENT))
        again = await nobody.get(one, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


async def test_the_default_agents_files_are_signed_at_the_root_too(
    ann: httpx.AsyncClient, nobody: httpx.AsyncClient, files: FileStore
) -> None:
    file = await stored(ann, files)
    at_root = file.path.removeprefix("/v1/agents/assistant")
    answer = (await ann.post(f"{at_root}:sign")).raise_for_status()
    assert (await nobody.get(answer.json()["url"])).content == CONTENT


@pytest.mark.parametrize("media_type", ["text/html", "image/svg+xml", "text/html\r\nX-A: b", ""])
async def test_a_browser_runs_no_file_and_no_shared_cache_keeps_it(
    ann: httpx.AsyncClient, nobody: httpx.AsyncClient, files: FileStore, media_type: str
) -> None:
    url = await signed(ann, await stored(ann, files, media_type, "page.html"))
    for status, headers in ((200, {}), (304, {"If-None-Match": "*"})):
        answer = await nobody.get(url, headers=headers)
        if status == 304:
            known = {"If-None-Match": answer.headers["etag"]}
            answer = await nobody.get(url, headers=known)
        assert answer.status_code == status
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
        assert answer.headers["cache-control"] == f"private, max-age={LIFETIME}"
    answer = await nobody.get(url)
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert "x-a" not in answer.headers


@pytest.mark.parametrize(
    "person", [BOB, EVE, READER_ELSEWHERE, None], ids=["owner", "tenant", "role", "nobody"]
)
async def test_nobody_else_gets_one(
    ann: httpx.AsyncClient, gateway: str, files: FileStore, person: Person | None
) -> None:
    file = await stored(ann, files)
    async with page_of(gateway, person) as other:
        refused = await other.post(f"{file.path}:sign")
        of_none = await other.post(f"{file.path.replace(file.key.task, '0-' + '0' * 32)}:sign")
    expected = {None: 401, READER_ELSEWHERE: 403}.get(person, 404)
    assert (refused.status_code, of_none.status_code) == (expected, expected)
    assert "url" not in refused.json()
    assert refused.json() == of_none.json()


async def test_there_is_none_of_a_file_that_does_not_exist(
    ann: httpx.AsyncClient, files: FileStore
) -> None:
    file = await stored(ann, files)
    for name in ("0" * 16, "*", "..", f"{file.name}:sign"):
        answer = await ann.post(f"{file.path.replace(file.name, name)}:sign")
        assert answer.status_code == 404, name
        assert "url" not in answer.json()


async def test_a_signature_is_for_one_file(
    ann: httpx.AsyncClient, nobody: httpx.AsyncClient, files: FileStore
) -> None:
    one, other = await stored(ann, files), await stored(ann, files, name="b.png")
    url = await signed(ann, one)
    sealed = url.rpartition("/")[2]
    assert "b.png" not in (await nobody.get(url)).headers["content-disposition"]
    for path in (other.path, one.path):
        for attempt in (f"{path}?signed={sealed}", f"{path}/{sealed}", f"{path}:sign?{sealed}"):
            assert (await nobody.get(attempt)).status_code in {401, 404}, attempt
    assert (await nobody.get(f"/v1/signed-files/{sealed}/{other.name}")).status_code == 404


async def test_what_nobody_has_signed_is_refused(
    ann: httpx.AsyncClient, nobody: httpx.AsyncClient, files: FileStore
) -> None:
    file = await stored(ann, files)
    url = await signed(ann, file)
    base, _, sealed = url.rpartition("/")
    middle = len(sealed) // 2
    changed = "A" if sealed[middle] != "A" else "B"
    own = {"tenant": "acme", "owner": file.key.tenant, "name": file.name}
    for forged in (
        f"{sealed[:middle]}{changed}{sealed[middle + 1 :]}",
        sealed[:-8],
        "x",
        "%ff%00",
        "A" * 30_000,
        str(own),
    ):
        answer = await nobody.get(f"{base}/{forged}", headers=FOREIGN)
        assert reason(answer) == (403, "SIGNATURE_REFUSED"), forged[:60]
        assert ":sign" in answer.json()["error"]["message"]
    # With her credentials, it is no permission either.
    assert (await ann.get(f"{base}/x")).status_code == 403


def permission(file: Stored, person: Person = ANN, **changed: object) -> SignedFile:
    given = {
        "tenant": encode_token(person.tenant),
        "owner": encode_token(person.owner),
        "operates": False,
        "agent": file.key.agent,
        "task": file.key.task,
        "name": file.name,
    }
    return SignedFile.model_validate(given | changed)


async def test_one_whose_time_is_over_is_refused(
    ann: httpx.AsyncClient, nobody: httpx.AsyncClient, files: FileStore, bus: Bus
) -> None:
    file, keys = await stored(ann, files), SigningKeys(bus)
    await keys.start()
    old = await SignedUrls(keys, lambda: time.time() - LIFETIME - 5).path_of(permission(file))
    new = await SignedUrls(keys, time.time).path_of(permission(file))
    await keys.stop()
    assert reason(await nobody.get(old, headers=FOREIGN)) == (403, "SIGNATURE_REFUSED")
    assert (await nobody.get(new, headers=FOREIGN)).content == CONTENT


@pytest.mark.parametrize("person", [BOB, EVE], ids=["owner", "tenant"])
async def test_a_signature_permits_what_its_owner_may_and_no_more(
    ann: httpx.AsyncClient, nobody: httpx.AsyncClient, files: FileStore, bus: Bus, person: Person
) -> None:
    file, keys = await stored(ann, files), SigningKeys(bus)
    await keys.start()
    path = await SignedUrls(keys, time.time).path_of(permission(file, person))
    await keys.stop()
    assert (await nobody.get(path)).status_code == 404


async def test_the_fleets_next_key_leaves_it_valid_and_the_removal_of_its_own_does_not(
    ann: httpx.AsyncClient, files: FileStore, bus: Bus, tmp_path: Path
) -> None:
    file, paths = await stored(ann, files), [tmp_path / "old.pem", tmp_path / "new.pem"]
    for path in paths:
        path.write_text(make_pem())
    [old, new] = paths
    before, after, at_once = (
        SignedUrls(SigningKeys(bus, keys), time.time) for keys in ([old], [new, old], [new])
    )
    sealed = (await before.path_of(permission(file))).rpartition("/")[2]
    assert await after.file_of(sealed) == permission(file)
    with pytest.raises(SignatureRefused):
        await at_once.file_of(sealed)
    with pytest.raises(SignatureRefused):
        await before.file_of((await after.path_of(permission(file))).rpartition("/")[2])


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_it_only_reads(
    ann: httpx.AsyncClient, nobody: httpx.AsyncClient, files: FileStore, method: str
) -> None:
    url = await signed(ann, await stored(ann, files))
    page = {"Origin": "https://app.example"}
    for headers, statuses in (({}, {404, 405}), (page, {403}), (FOREIGN, {403})):
        answer = await nobody.request(method, url, headers=headers)
        assert answer.status_code in statuses
    assert (await nobody.get(url)).content == CONTENT


async def test_pages_of_other_sites_load_it_and_nothing_else(
    ann: httpx.AsyncClient, nobody: httpx.AsyncClient, files: FileStore
) -> None:
    file = await stored(ann, files)
    url = await signed(ann, file)
    origin = {"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}
    answer = await nobody.get(url, headers=origin)
    assert (answer.status_code, answer.content) == (200, CONTENT)
    # An image may show it; a script may read it only where its page is listed.
    assert "access-control-allow-origin" not in answer.headers
    for other in (file.path, "/v1/agents", "/v1/signed-files", "/v1/signed-files/../agents"):
        for headers in (FOREIGN, origin):
            refused = await ann.get(other, headers=headers)
            assert refused.status_code in {403, 404}, other
    assert reason(await ann.get(file.path, headers=FOREIGN)) == (403, "PAGE_REFUSED")
    rebound = FOREIGN | {"Host": "evil.example"}
    assert reason(await nobody.get(url, headers=rebound)) == (403, "PAGE_REFUSED")


async def test_it_ends_with_its_file(
    ann: httpx.AsyncClient, nobody: httpx.AsyncClient, files: FileStore
) -> None:
    file = await stored(ann, files)
    url = await signed(ann, file)
    assert (await nobody.get(url)).is_success
    await files.drop(file.key, file.name)
    assert reason(await nobody.get(url)) == (404, "FILE_NOT_FOUND")


async def test_an_operators_is_its_own_in_the_audit_log(
    ann: httpx.AsyncClient,
    nobody: httpx.AsyncClient,
    gateway: str,
    files: FileStore,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = await stored(ann, files)
    caplog.set_level(logging.INFO, "headrace.audit")
    async with page_of(gateway, OPERATOR) as operator:
        url = await signed(operator, file)
    assert (await nobody.get(url)).content == CONTENT
    audited = [one.__dict__["audit"] for one in caplog.records if "audit" in one.__dict__]
    said = [
        (one["owner"], one["role"], one["operation"], one["task"], one["target_owner"])
        for one in audited
    ]
    line = (OPERATOR.owner, "operator", "GetTask", file.key.task, encode_token(ANN.owner))
    assert said == [line, line]


async def test_each_download_counts_against_its_owners_rate(
    settings: GatewaySettings, ann: httpx.AsyncClient, files: FileStore
) -> None:
    url = await signed(ann, await stored(ann, files))
    update = {
        "owner_requests_per_minute": 3,
        "http_port": ports.pick(),
        "grpc_port": 0,
    }
    async with running(settings.model_copy(update=update)) as limited, page_of(limited) as page:
        path = re.sub(r"^https?://[^/]+", "", url)
        statuses = [(await page.get(path)).status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]


@pytest_asyncio.fixture(loop_scope="module")
async def nginx(gateway: str, tmp_path: Path) -> AsyncIterator[Nginx]:
    proxy = Nginx(tmp_path / "nginx", [gateway], "/fleet/one")
    await asyncio.to_thread(proxy.__enter__)
    yield proxy
    await asyncio.to_thread(proxy.__exit__, None, None, None)


@needs_nginx
async def test_behind_a_proxy_it_leads_through_the_proxy(
    nginx: Nginx, ann: httpx.AsyncClient, nobody: httpx.AsyncClient, files: FileStore
) -> None:
    file = await stored(ann, files)
    answer = (await ann.post(f"{nginx.url}{file.path}:sign")).raise_for_status()
    url = answer.json()["url"]
    assert url.startswith(f"{nginx.url}/v1/signed-files/")
    assert (await nobody.get(url, headers=FOREIGN)).content == CONTENT
