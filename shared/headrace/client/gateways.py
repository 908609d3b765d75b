"""HTTP to any of a fleet's gateways: the next one if one does not answer."""

import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

import httpx
import orjson

from headrace.client.errors import (
    ConnectionLost,
    ErrorResponse,
    RequestRefused,
    TimedOut,
    Unreachable,
    read_error,
)
from headrace.client.retries import Retries, RetryOptions
from headrace.model import json_text
from headrace.model.events import Json

_log = logging.getLogger(__name__)

_TIMEOUT = httpx.Timeout(60.0, connect=10.0, pool=None)
"""Seconds of silence; gateways send comments on silent streams more often."""

_UNAVAILABLE = frozenset(
    {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
)
"""Statuses of gateways, or of proxies before them, that another attempt may get past."""

_LONGEST_PAUSE = 60.0
"""Seconds that a gateway may ask the client to wait; a longer time is the caller's to wait."""

_LAST_PORT = 65535
_MOST_REDIRECTS = 5
_KEEP_THE_METHOD = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})
_FOLLOWED = _KEEP_THE_METHOD | {
    HTTPStatus.MOVED_PERMANENTLY,
    HTTPStatus.FOUND,
    HTTPStatus.SEE_OTHER,
}
_SAFE = frozenset({"GET", "HEAD"})
_PORTS = {"http": 80, "https": 443}

type Token = str | Callable[[], str]
"""A bearer token, or a function that returns the current one."""


class StreamOver(Exception):
    """The cursor is at the end of all there will be."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request that may be repeated."""

    method: str
    path: str
    body: Json | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str | int] = field(default_factory=dict)


class Gateways:
    """The gateways of one fleet, for one caller."""

    def __init__(
        self,
        urls: Sequence[str],
        token: Token | None,
        retry: RetryOptions,
        http: httpx.AsyncClient | None,
    ) -> None:
        """Use the gateways at `urls`; `http` is the caller's own, and is left open.

        Raises:
            ValueError: there is no URL, or one is not an http(s) URL.
        """
        self._urls = [_checked(url) for url in urls]
        if not self._urls:
            raise ValueError("the URL of a gateway is required")
        self._token, self._retry = token, retry
        self._http = http or httpx.AsyncClient(verify=_verification(self._urls))
        self._is_own = http is None
        self._first = 0
        """Number of the gateway that is asked first: the last one that did not fail."""
        self._has_answered = False
        """Whether any gateway ever answered, so that the URLs are right."""

    async def close(self) -> None:
        """Close the connections."""
        if self._is_own:
            await self._http.aclose()

    async def json(self, request: Request, *, may_wait: bool = False) -> Json:
        """Return the JSON object that answers `request`.

        With `may_wait`, silence is no failure: the request is repeated until it is answered, at
        each gateway in turn, since one that is frozen is silent, too.

        Raises:
            RequestRefused: a gateway refused it.
            ConnectionLost: no gateway answered, or one did with something else.
        """
        retries = self.retries()
        body = await self._content(request, retries, may_wait=may_wait)
        if (found := _object(body)) is None:
            url = self._urls[retries.gateway]
            raise ConnectionLost(f"{url}{request.path} did not answer with a JSON object")
        return found

    async def content(self, request: Request) -> bytes:
        """Return the body that answers `request`; it may be empty.

        Raises:
            RequestRefused, ConnectionLost: as `json`.
        """
        return await self._content(request, self.retries())

    async def _content(
        self, request: Request, retries: Retries, *, may_wait: bool = False
    ) -> bytes:
        while True:
            try:
                async with self.response(request, retries) as response:
                    return await response.aread()
            except StreamOver:
                return b""
            except TimedOut as silence:
                if may_wait:
                    retries.turn()
                else:
                    await self.failed(retries, silence)
            except Unreachable as error:
                await self.failed(retries, error)

    def retries(self) -> Retries:
        """Return the count of failures for one operation."""
        return Retries(self._retry, len(self._urls), was_connected=self._has_answered)

    async def failed(self, retries: Retries, error: Unreachable) -> None:
        """Turn away from the gateway that the operation used, and pause where necessary.

        Raises:
            RequestRefused, ConnectionLost: as `Retries.failed`.
        """
        # Operations that fail together turn away once: others may have left it for the next one.
        if self._first == retries.gateway:
            self._first = (self._first + 1) % len(self._urls)
        await retries.failed(self._urls[retries.gateway], error)

    @asynccontextmanager
    async def response(self, request: Request, retries: Retries) -> AsyncIterator[httpx.Response]:
        """Make a request and yield its response, whose body may be read within the block.

        Raises:
            Unreachable: it should be made again; also if the body breaks off.
            StreamOver: the response is 204, for a stream that is over.
            RequestRefused: the gateway refused it, or redirects where the client does not follow.
            ValueError: the token can't be in a header, or the body can't be JSON.
        """
        url = httpx.URL(self._urls[retries.choose(self._first)] + request.path)
        if request.query:
            url = url.copy_merge_params(request.query)
        for _ in range(_MOST_REDIRECTS + 1):
            with _unreachable():
                async with self._stream(request, url) as response:
                    self._has_answered = True
                    if response.status_code == HTTPStatus.NO_CONTENT:
                        raise StreamOver
                    if response.is_success:
                        yield response
                        return
                    if response.status_code >= HTTPStatus.BAD_REQUEST:
                        await _refuse(response)
                    url = _redirect_target(request.method, url, response)
        raise RequestRefused(
            ErrorResponse(
                HTTPStatus.LOOP_DETECTED, f"{url} redirects more than {_MOST_REDIRECTS} times"
            )
        )

    def _stream(
        self, request: Request, url: httpx.URL
    ) -> AbstractAsyncContextManager[httpx.Response]:
        return self._http.stream(
            request.method,
            url,
            headers={**self._headers(), **request.headers},
            content=None if request.body is None else _json(request.body),
            timeout=_TIMEOUT,
            follow_redirects=False,
        )

    def _headers(self) -> dict[str, str]:
        headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
        token = self._token() if callable(self._token) else self._token
        if token and not (token.isascii() and token.isprintable()):  # The message must not have it.
            raise ValueError("the token contains characters that an HTTP header can't contain")
        return headers | ({"Authorization": f"Bearer {token}"} if token else {})


def _object(body: bytes) -> Json | None:
    try:
        found = json_text.decode(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _json(body: Json) -> bytes:
    try:
        written = json_text.encode(body)
    except TypeError as error:
        raise ValueError(f"the request can't be written as JSON: {error}") from error
    if (lost := json_text.lost_number(body, written)) is not None:
        name, number = lost
        _log.warning("%s is %s, which JSON does not have: null is sent", name.lstrip("."), number)
    return written


@contextmanager
def _unreachable() -> Iterator[None]:
    try:
        yield
    except httpx.ConnectError as error:
        raise Unreachable(_text(error), was_connected=False) from error
    except httpx.ConnectTimeout as error:
        raise Unreachable("connecting timed out", was_connected=False) from error
    except httpx.TimeoutException as error:
        raise TimedOut("the gateway sends no data") from error
    except httpx.TransportError as error:
        raise Unreachable(_text(error)) from error


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


async def _refuse(response: httpx.Response) -> None:
    retry_after = response.headers.get("Retry-After", "")
    body = await response.aread()
    refused = read_error(response.status_code, response.reason_phrase, body, retry_after)
    may_retry = refused.status in _UNAVAILABLE or (
        refused.status == HTTPStatus.TOO_MANY_REQUESTS and refused.retry_after is not None
    )
    if may_retry and (refused.retry_after or 0.0) <= _LONGEST_PAUSE:
        raise Unreachable(refused.message, response=refused)
    raise RequestRefused(refused)


def _checked(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as invalid:
        raise ValueError(f"{url!r} is not an http(s) URL: {invalid}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"{url!r} is not an http(s) URL")
    if parsed.port is not None and parsed.port > _LAST_PORT:
        raise ValueError(f"{url!r} is not an http(s) URL: a port is at most {_LAST_PORT}")
    return url.rstrip("/")


def _verification(urls: Sequence[str]) -> bool | ssl.SSLContext:
    """Return what verifies certificates. Loading the system's takes time, which HTTP saves."""
    if any(url.startswith("https:") for url in urls):
        return True
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _redirect_target(method: str, url: httpx.URL, response: httpx.Response) -> httpx.URL:
    """Return the URL at which the same request is to be made instead of at `url`.

    Raises:
        RequestRefused: `response` is no redirect that may be followed. The request and its
            credentials stay at the gateway's origin, and its method stays the same: a POST that
            became a GET (301, 302, 303) would report what was not done.
    """
    status = response.status_code
    location = response.headers.get("Location")
    if status not in _FOLLOWED or location is None:
        raise _refused(status, f"{url} answered {status} {response.reason_phrase}".rstrip())
    try:
        target = url.join(location)
    except httpx.InvalidURL:
        raise _refused(status, f"{url} redirects to an invalid URL, {location!r}") from None
    if _origin(target) != _origin(url):
        advice = "which is another origin; if you trust it, use it as the gateway's URL"
        raise _refused(status, f"{url} redirects to {_without_user(target)}, {advice}")
    if method not in _SAFE and status not in _KEEP_THE_METHOD:
        rule = f"a {method} follows 307 and 308 only"
        raise _refused(status, f"{url} redirects to {_without_user(target)} with {status}; {rule}")
    return target.copy_with(username=url.username, password=url.password)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or _PORTS.get(url.scheme)


def _without_user(url: httpx.URL) -> httpx.URL:
    return url.copy_with(username=None, password=None)


def _refused(status: int, message: str) -> RequestRefused:
    return RequestRefused(ErrorResponse(status, message))
