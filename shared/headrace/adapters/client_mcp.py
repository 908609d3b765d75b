"""Tools of MCP servers that a run's client names, if the agent's author allows these servers.

A worker is inside the fleet's network, where a client's URL must not lead. So there is no server
without a list of those that are allowed, as for webhooks to internal addresses; redirects are not
followed.
"""

import re
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from headrace.adapters.mcp_tools import McpServer
from headrace.model.events import Json
from headrace.sdk.context import RunContext
from headrace.sdk.errors import ClientServerRefused, Misdeclared
from headrace.sdk.tools import Tool

PLACE = "forwardedProps.mcpServers"
"""Where an AG-UI client names its servers: a list of objects with ``url`` and ``name``."""

MOST = 4
"""Maximum number of servers of a run."""

_NAME = re.compile(r"[A-Za-z0-9-]{1,32}")
_PORTS = {"http": 80, "https": 443}


class _NamedServer(NamedTuple):
    """A server as a client names it."""

    url: str
    name: str


class ClientMcpServers:
    """The tools of MCP servers that the client of a run names.

    They are called ``<name>_<tool>``, so that they can't take the place of the agent's own. Each
    run has connections of its own, without credentials.
    """

    def __init__(self, allow: Collection[str], *, timeout: float = 60.0) -> None:
        """Allow servers by their origin, ``https://tools.example.com``, or by their whole URL.

        Args:
            allow: Origins, at which every path is allowed, and URLs, which must be the same.
            timeout: Maximum duration of a call in seconds.

        Raises:
            Misdeclared: `allow` is empty, or an item is no http or https URL.
        """
        if isinstance(allow, str) or not allow:
            raise Misdeclared("allow must list the origins or URLs of the MCP servers")
        self._timeout = timeout
        self._origins, self._urls = set[tuple[Any, ...]](), set[str]()
        for item in allow:
            parts = _parsed(item)
            if parts is None:
                raise Misdeclared(f"allow: {item!r} is no http or https URL of a server")
            if parts.path in {"", "/"}:
                self._origins.add(_origin(parts))
            else:
                self._urls.add(item)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Sequence[Tool]]:
        """Yield no tools: outside of a run there is no client."""
        yield ()

    @asynccontextmanager
    async def open_for(self, ctx: RunContext) -> AsyncIterator[Sequence[Tool]]:
        """Yield the tools of the servers that the run's client names.

        Raises:
            ClientServerRefused: A server is not allowed, or not named as it must be.
            Retryable: A server does not answer.
        """
        async with AsyncExitStack() as stack:
            found = list[Tool]()
            for one in list(self._named(ctx.agui)):
                server = McpServer(one.url, prefix=f"{one.name}_", timeout=self._timeout, keep=0)
                found += await stack.enter_async_context(server.open())
            yield found

    def _named(self, sent: Json) -> Iterator[_NamedServer]:
        props = sent.get("forwardedProps")
        stated = props.get("mcpServers") if isinstance(props, dict) else None
        if stated is None:
            return
        if not isinstance(stated, list) or len(stated) > MOST:
            raise ClientServerRefused(f"{PLACE} must be a list of at most {MOST} servers")
        names = set[str]()
        for number, one in enumerate(stated):
            server = self._checked(one, number)
            if server.name in names:
                raise ClientServerRefused(f"{PLACE}[{number}].name is that of another server")
            names.add(server.name)
            yield server

    def _checked(self, one: object, number: int) -> _NamedServer:
        place = f"{PLACE}[{number}]"
        if not isinstance(one, dict) or not one.keys() <= {"url", "name"}:
            # Credentials, say, which would stay in the task's log.
            raise ClientServerRefused(f"{place} must be an object with url and name, only")
        url, name = one.get("url"), one.get("name", f"client{number}")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ClientServerRefused(f"{place}.name must be up to 32 letters, digits and hyphens")
        if not isinstance(url, str) or not self._is_allowed(url):
            raise ClientServerRefused(f"{place}.url is not an MCP server that this agent allows")
        return _NamedServer(url, name)

    def _is_allowed(self, url: str) -> bool:
        parts = _parsed(url)
        return parts is not None and (url in self._urls or _origin(parts) in self._origins)


def _parsed(url: str) -> SplitResult | None:
    """Return the parts of the URL of a server; None: it is none, or has user info or a fragment."""
    # Parsers disagree on these, so that another host than the checked one might be reached.
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname:
        return None
    return None if "@" in parts.netloc or parts.fragment else parts


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    return parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme]
