"""A connection to an outside agent, over any binding that its card offers."""

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, override
from weakref import WeakKeyDictionary

import grpc
import httpx
from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.interceptors import AfterArgs, BeforeArgs, ClientCallInterceptor
from a2a.types import (
    AgentCard,
    AgentInterface,
    CancelTaskRequest,
    GetTaskRequest,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
)

from headrace.adapters.a2a.credentials import (
    AccessRefused,
    Credentials,
    OwnCard,
    is_same_origin,
)
from headrace.adapters.a2a.cursors import NotingTransport
from headrace.adapters.event_stream import LARGEST

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
_ADDRESS = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?")
"""A host and a port. For anything else, gRPC and URL parsers may disagree about the host."""


@dataclass(frozen=True)
class Place:
    """An outside agent's address, and the settings of its connections."""

    url: str
    """Base URL; the card is at the well-known path below it."""
    bindings: tuple[str, ...] = BINDINGS
    credentials: Credentials | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    connect_timeout: float = 10.0
    silence: float = 60.0
    """Seconds without data after which a stream is reopened."""
    secure_grpc: bool = False
    origins: Sequence[str] = ()
    """URLs of further origins at which its card may name interfaces."""
    card_life: float = 300.0
    """Seconds after which its card is read again."""


class Remote:
    """An outside agent. Every call raises A2AError if the agent refuses or does not answer."""

    def __init__(self, place: Place) -> None:
        """Connect to the agent at `place`."""
        self.place = place
        self._card, self._read = AgentCard(), float("-inf")
        self._tls = httpx.create_ssl_context()
        self._links: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClient] = WeakKeyDictionary()

    @asynccontextmanager
    async def used(self) -> AsyncIterator[None]:
        """Keep connections open for the block; overlapping blocks share them."""
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None:
            link = self._links[loop] = _LoopClient(_http(self.place, self._tls))
        link.users += 1
        try:
            yield
        finally:
            link.users -= 1
            if not link.users:
                del self._links[loop]
                await link.close()

    async def streams(self) -> bool:
        """Return whether the agent streams.

        Raises:
            A2AError: Its card can't be read.
        """
        await self._link()
        return self._card.capabilities.streaming

    async def send(
        self, request: SendMessageRequest, headers: Mapping[str, str]
    ) -> AsyncIterator[StreamResponse]:
        """Send a message and yield the events that follow."""
        async with self._client() as client:
            async for event in client.send_message(request, context=self._call(headers)):
                yield event

    async def subscribe(
        self, task: str, headers: Mapping[str, str]
    ) -> AsyncIterator[StreamResponse]:
        """Yield a task's events."""
        request = SubscribeToTaskRequest(id=task)
        async with self._client() as client:
            async for event in client.subscribe(request, context=self._call(headers)):
                yield event

    async def get(self, task: str) -> Task:
        """Return a task's current state."""
        async with self._client() as client:
            return await client.get_task(GetTaskRequest(id=task), context=self._call({}))

    async def cancel(self, task: str) -> Task:
        """Cancel a task."""
        async with self._client() as client:
            return await client.cancel_task(CancelTaskRequest(id=task), context=self._call({}))

    def _call(self, headers: Mapping[str, str]) -> ClientCallContext:
        # gRPC accepts only lower-case names; HTTP ignores case.
        named = {**self.place.headers, **headers}
        return ClientCallContext(
            service_parameters={name.lower(): value for name, value in named.items()}
        )

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        """Yield the client for the current card; it stays open for the block."""
        link = await self._link()
        client = link.clients[-1]
        client.calls += 1
        try:
            yield client.client
        finally:
            client.calls -= 1
            await link.close_unused()

    async def _link(self) -> "_LoopClient":
        link = self._links[asyncio.get_running_loop()]
        async with link.reading:
            if time.monotonic() - self._read > self.place.card_life:
                await self._read_card(link.http)
            if not link.clients or link.clients[-1].card is not self._card:
                link.clients.append(_CardClient(self._made(link), self._card))
                await link.close_unused()
        return link

    async def _read_card(self, http: httpx.AsyncClient) -> None:
        place = self.place
        own = await place.credentials.headers(None, http) if place.credentials else {}
        http_kwargs: Any = {"headers": {**place.headers, **own}}
        resolver = A2ACardResolver(http, place.url)
        card = await resolver.get_agent_card(http_kwargs=http_kwargs)
        self._card = self._card if card == self._card else card
        self._read = time.monotonic()

    def _made(self, link: "_LoopClient") -> Client:
        place = self.place
        config = ClientConfig(
            httpx_client=link.http,
            grpc_channel_factory=self._channel,
            supported_protocol_bindings=list(place.bindings),
            use_client_preference=place.bindings != BINDINGS,
            polling=not self._card.capabilities.streaming,
        )
        card = _within(place, self._card)
        lets_in = (
            [CredentialInterceptor(place, place.credentials, link)] if place.credentials else []
        )
        return ClientFactory(config).create(card, list(lets_in))

    def _channel(self, url: str) -> grpc.aio.Channel:
        options = [
            ("grpc.keepalive_time_ms", int(self.place.silence * 1000)),
            ("grpc.max_receive_message_length", LARGEST),
        ]
        address = url.removeprefix("http://").removeprefix("https://")
        if self.place.secure_grpc or url.startswith("https://"):
            return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(), options)
        return grpc.aio.insecure_channel(address, options)


def _within(place: Place, card: AgentCard) -> AgentCard:
    """Return the card with only those interfaces that a worker may connect to.

    The agent writes its card. Otherwise it could send the worker, which may reach what it can't, to
    any service beside the worker, and have the answer; or get another server its credentials.

    Raises:
        AccessRefused: All of its interfaces have other origins.
    """
    allowed = (place.url, *place.origins)
    own = [
        each
        for each in card.supported_interfaces
        if any(_is_at(origin, each, is_secure=place.secure_grpc) for origin in allowed)
    ]
    if not own:
        raise AccessRefused(
            f"the card of {place.url} names only interfaces at other origins, which are not used "
            "unless they are named in origins"
        )
    kept = AgentCard()
    kept.CopyFrom(card)
    del kept.supported_interfaces[:]
    kept.supported_interfaces.extend(own)
    return kept


def _is_at(origin: str, interface: AgentInterface, *, is_secure: bool) -> bool:
    """Return whether the interface is at `origin`; gRPC may use another port of its host."""
    url = interface.url
    if interface.protocol_binding != "GRPC":
        return is_same_origin(url, origin)
    own = httpx.URL(origin)
    is_allowed = is_secure or url.startswith("https://") or own.scheme == "http"
    address = url.removeprefix("http://").removeprefix("https://")
    if not is_allowed or not _ADDRESS.fullmatch(address):
        return False
    try:
        return httpx.URL(f"//{address}").host == own.host
    except httpx.InvalidURL:
        return False


def read_card(place: Place, timeout: float) -> AgentCard:
    """Return the agent's card; blocks until it is read.

    Raises:
        Exception: The card can't be read.
    """

    async def read() -> AgentCard:
        tls = httpx.create_ssl_context()
        async with asyncio.timeout(timeout), _http(place, tls) as http:
            own = await place.credentials.headers(None, http) if place.credentials else {}
            options: Any = {"headers": {**place.headers, **own}}
            return await A2ACardResolver(http, place.url).get_agent_card(http_kwargs=options)

    with ThreadPoolExecutor(1) as executor:
        # An event loop may be running in this thread.
        return executor.submit(asyncio.run, read()).result()


def _http(place: Place, tls: ssl.SSLContext) -> httpx.AsyncClient:
    timeout = httpx.Timeout(place.silence, connect=place.connect_timeout)
    return httpx.AsyncClient(timeout=timeout, transport=NotingTransport(verify=tls))


@dataclass(eq=False)
class _CardClient:
    """A client made for one card."""

    client: Client
    card: AgentCard
    calls: int = 0
    """Its open calls and streams."""


@dataclass(eq=False)
class _LoopClient:
    """The connections of one event loop, open while they are in use."""

    http: httpx.AsyncClient
    users: int = 0
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    clients: list[_CardClient] = field(default_factory=list)
    """The last one is for the current card; others have calls that began before it."""

    async def close_unused(self) -> None:
        """Close the clients of earlier cards that have no open calls."""
        *earlier, current = self.clients
        self.clients = [*(each for each in earlier if each.calls), current]
        for each in earlier:
            if not each.calls:
                await each.client.close()

    async def close(self) -> None:
        """Close the connections."""
        for each in self.clients:
            await each.client.close()
        await self.http.aclose()


class CredentialInterceptor(ClientCallInterceptor):
    """Adds credentials to each call, with any binding."""

    def __init__(self, place: Place, credentials: Credentials, link: _LoopClient) -> None:
        """Add `credentials` to calls of the agent at `place`."""
        self._place, self._credentials, self._link = place, credentials, link

    @override
    async def before(self, args: BeforeArgs) -> None:
        args.context = args.context or ClientCallContext()
        own = await self._credentials.headers(
            OwnCard(args.agent_card, self._place.url), self._link.http
        )
        given = args.context.service_parameters or {}
        args.context.service_parameters = {
            **given,
            **{name.lower(): value for name, value in own.items()},
        }

    @override
    async def after(self, args: AfterArgs) -> None:
        """Do nothing."""
