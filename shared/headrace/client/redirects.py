"""Redirects: which ones the client follows, and with what."""

from http import HTTPStatus

import httpx

from headrace.client.errors import ErrorResponse, RequestRefused

_KEEP_THE_METHOD = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})
_FOLLOWED = _KEEP_THE_METHOD | {
    HTTPStatus.MOVED_PERMANENTLY,
    HTTPStatus.FOUND,
    HTTPStatus.SEE_OTHER,
}
_SAFE = frozenset({"GET", "HEAD"})
_PORTS = {"http": 80, "https": 443}


def redirect_target(method: str, url: httpx.URL, response: httpx.Response) -> httpx.URL:
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
