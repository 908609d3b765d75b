"""One attempt to notify a webhook: a signed HTTP request, limited in time and size."""

import asyncio
import hashlib
import time
from http import HTTPStatus
from importlib.metadata import version
from urllib.parse import urlsplit

import httpcore
from opentelemetry.trace import Span, SpanKind

from headrace import metrics, tracing
from headrace.model.retry_after import seconds_to_wait
from headrace.signing import SigningKeys
from headrace.webhooks import CURRENT, OLD, TaskWebhook
from headrace_task_state.webhooks.connections import Connections
from headrace_task_state.webhooks.network import AddressRefused, AllowedDestinations, GuardedNetwork
from headrace_task_state.webhooks.notice import Failure, Notice

MOST_ANSWER_BYTES = 16 * 1024
"""Maximum bytes read of an answer; a longer answer closes its connection."""

SIGNATURE_LIFE = 300
"""Seconds for which a signature is valid: enough for clock differences, too short for replays."""

_TYPES = {CURRENT: "application/a2a+json", OLD: "application/json"}

_PORTS = {"http": 80, "https": 443}

_LONGEST_WAIT = 3600.0
_WAITS = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})


class Attempts:
    """Makes attempts over connections that are kept open."""

    def __init__(self, keys: SigningKeys, allowed: AllowedDestinations, timeout: float) -> None:
        """Sign with `keys`; connect to what is `allowed`; limit each attempt to `timeout` s."""
        self._keys, self._timeout = keys, timeout
        # Tokens are sent over the internet with TLS only.
        self._connections = Connections(
            {
                b"https": GuardedNetwork(allowed, public=True),
                b"http": GuardedNetwork(allowed, public=False),
            }
        )

    async def close(self) -> None:
        """Close open connections."""
        await self._connections.close()

    async def make(self, webhook: TaskWebhook, notice: Notice) -> Failure | None:
        """Send; return why the receiver did not accept it, or None if it did."""
        await self._keys.ready()
        started, span = time.monotonic(), _span(webhook, notice)
        try:
            failure = await self._make(webhook, notice, span)
        except BaseException as error:
            # Also cut off, when another replica gets the range: it is not known what came of it.
            tracing.note_error(span, type(error).__name__)
            raise
        finally:
            span.end()
        outcome = metrics.PUSH_SECONDS.labels("delivered" if failure is None else "failed")
        outcome.observe(time.monotonic() - started)
        return failure

    async def _make(self, webhook: TaskWebhook, notice: Notice, span: Span) -> Failure | None:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._send(webhook, notice, span)
        except (
            *(httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException),
            *(AddressRefused, OSError, ValueError),
        ) as error:
            tracing.note_error(span, type(error).__name__)
            return self._failure(error)

    def _failure(self, error: Exception) -> Failure:
        if isinstance(error, TimeoutError):
            return Failure(f"no answer within {self._timeout:g} s")
        if isinstance(error, AddressRefused):
            return Failure(str(error), is_final=True)
        return Failure(f"{type(error).__name__}: {error}"[:300])

    async def _send(self, webhook: TaskWebhook, notice: Notice, span: Span) -> Failure | None:
        limits = dict.fromkeys(("connect", "read", "write"), self._timeout)
        url = httpcore.URL(webhook.address.url)
        async with (
            self._connections.connection(url) as connection,
            connection.stream(
                "POST",
                url,
                headers=self._headers(webhook, notice, span),
                content=notice.body,
                extensions={"timeout": limits},
            ) as response,
        ):
            size = 0
            async for piece in response.aiter_stream():
                size += len(piece)
                if size > MOST_ANSWER_BYTES:
                    break
            _note_status(span, response.status)
            return _failure_of(response)

    def _headers(self, webhook: TaskWebhook, notice: Notice, span: Span) -> list[tuple[str, str]]:
        address = webhook.address
        headers = [
            ("Host", urlsplit(address.url).netloc),
            ("User-Agent", f"headrace/{version('headrace')}"),
            ("Content-Type", _TYPES.get(webhook.version, _TYPES[CURRENT])),
            ("Content-Length", str(len(notice.body))),
            ("A2A-Version", webhook.version),
            ("X-A2A-Notification-Id", notice.id),
            ("X-A2A-Notification-Attempt", str(notice.attempt)),
            ("X-A2A-Notification-Signature", self._signature(webhook, notice)),
        ]
        if (traceparent := tracing.traceparent_of(span) or notice.traceparent) is not None:
            headers.append(("traceparent", traceparent))
        if address.token is not None:
            headers.append(("X-A2A-Notification-Token", address.token))
        if address.scheme is not None:
            authorization = f"{address.scheme} {address.credentials or ''}".strip()
            headers.append(("Authorization", authorization))
        return headers

    def _signature(self, webhook: TaskWebhook, notice: Notice) -> str:
        now = int(time.time())
        return self._keys.current.token(
            {
                "aud": webhook.address.url,
                "iat": now,
                "exp": now + SIGNATURE_LIFE,
                "jti": notice.id,
                "task_id": notice.task,
                "request_body_sha256": hashlib.sha256(notice.body).hexdigest(),
            }
        )


def _span(webhook: TaskWebhook, notice: Notice) -> Span:
    """Start the span of an attempt. The address is without its path, which may hold a secret."""
    address = urlsplit(webhook.address.url)
    attributes: dict[str, str | int] = {
        "http.request.method": "POST",
        "server.address": address.hostname or "",
        "server.port": address.port or _PORTS.get(address.scheme, 0),
        "headrace.task.id": notice.task,
    }
    if notice.attempt > 1:
        attributes["http.request.resend_count"] = notice.attempt - 1
    return tracing.start_span("POST", SpanKind.CLIENT, notice.traceparent, attributes)


def _note_status(span: Span, status: int) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= HTTPStatus.BAD_REQUEST:
        tracing.note_error(span, str(status))


def _failure_of(response: httpcore.Response) -> Failure | None:
    status = response.status
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return None
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return Failure(f"the receiver answered {status}; redirects are not followed")
    wait = _wait(response) if status in _WAITS else 0.0
    is_gone = status == HTTPStatus.GONE
    return Failure(f"the receiver answered {status}", is_final=is_gone, is_gone=is_gone, wait=wait)


def _wait(response: httpcore.Response) -> float:
    headers = {name.lower(): value for name, value in response.headers}
    asked = seconds_to_wait(headers.get(b"retry-after", b"").decode("latin-1"))
    return min(asked or 0.0, _LONGEST_WAIT)
