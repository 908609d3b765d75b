"""One call of an operation, whichever binding it came by."""

import re
from dataclasses import dataclass

from a2a.extensions.common import HTTP_EXTENSION_HEADER
from a2a.utils.constants import PROTOCOL_VERSION_1_0
from starlette.requests import HTTPConnection, Request
from starlette.types import Receive
from starlette.websockets import WebSocket

from headrace.directory import AgentCard
from headrace.model.events import TRACEPARENT, Json
from headrace_gateway.extensions import activated
from headrace_gateway.refusals import AgentUnknown, CredentialsMissing
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.public_url import public_grpc, public_url
from headrace_gateway.services import Services

AGENT = "/v1/agents/{agent}"
"""Base of one agent's routes; the default agent's are at the root too."""

IDEMPOTENCY_KEY = "Idempotency-Key"
"""Request header: a message sent twice under one key is taken in once."""

_TRACE = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Call:
    """Who asks which agent, and what goes with the call beside its parameters."""

    caller: Caller
    card: AgentCard
    """The agent asked."""
    cursor: str
    """Behind which event to go on; empty: the client has none."""
    idempotency_key: str | None
    """Under which the message is sent, as it stands in the header; None: there is none."""
    extensions: tuple[str, ...]
    """URIs of the extensions that the call activates."""
    receive: Receive
    """Tells when the client goes away (ASGI)."""
    traceparent: str = ""
    """W3C trace context that the call is part of; empty: of none, or of one that can't be read."""
    base: str = ""
    """Scheme and host by which the client came; empty: not known."""
    grpc: str | None = None
    """Host and port for gRPC where the client came; None: not known."""
    version: str = PROTOCOL_VERSION_1_0
    """Of A2A, that the client speaks, by major and minor number."""

    @property
    def marks(self) -> Json:
        """What of the call is kept in the metadata of the input that it brings."""
        return {TRACEPARENT: self.traceparent} if self.traceparent else {}

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.card.name

    @property
    def headers(self) -> dict[str, str]:
        """What every answer to the call says in its headers."""
        if not self.extensions:
            return {}
        return {HTTP_EXTENSION_HEADER: ", ".join(self.extensions)}


def call_of(
    services: Services,
    request: Request | WebSocket,
    caller: Caller | None = None,
    tenant: object = "",
    version: str = PROTOCOL_VERSION_1_0,
) -> Call:
    """Return who asks which agent.

    It is the one in the path (or the metadata), else the one that `tenant` names, else the default
    one. A tenant is what a card told its client to say: it says where to go, never who may.

    `caller` is who asks, where that is known already; `version` the one of A2A that is spoken.

    Raises:
        CredentialsMissing, CredentialsRefused: it does not say who.
        AgentUnknown: there is no such agent.
        ExtensionSupportRequiredError: it does not activate what the agent requires.
    """
    caller = caller or services.callers.of(request.headers)
    stated = request.path_params.get("agent")
    name = stated or _routed(services, tenant)
    card = services.directory.card(name)
    if card is None:
        raise AgentUnknown.called(name, at_root=stated is None)
    if card.security.get("require") and not caller.identified:
        raise CredentialsMissing(f"agent {name!r} wants to know who asks: {_wanted(card)}")
    asked = request.query_params.getlist(HTTP_EXTENSION_HEADER)
    extensions = activated(card, request.headers.getlist(HTTP_EXTENSION_HEADER) + asked)
    return Call(
        caller=caller,
        card=card,
        cursor=_cursor(request),
        idempotency_key=request.headers.get(IDEMPOTENCY_KEY),
        extensions=extensions,
        receive=request.receive,
        traceparent=_trace(request.headers.get("traceparent", "")),
        base=public_url(request, services.settings),
        grpc=public_grpc(request, services.settings),
        version=version,
    )


def _wanted(card: AgentCard) -> str:
    return ", ".join(card.security["require"])


def _trace(stated: str) -> str:
    return stated if _TRACE.fullmatch(stated) else ""


def _routed(services: Services, tenant: object) -> str:
    is_agent = isinstance(tenant, str) and services.directory.card(tenant) is not None
    return str(tenant) if is_agent else services.default_agent


def _cursor(request: HTTPConnection) -> str:
    # EventSource sends the header by itself when it reconnects, so it is the newer one.
    stated = request.headers.get("last-event-id") or request.query_params.get("after")
    return (stated or "").strip()
