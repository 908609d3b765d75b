"""One call of an operation, whichever binding it came by."""

import asyncio
import re
from dataclasses import dataclass, replace
from itertools import chain

from a2a.utils.constants import PROTOCOL_VERSION_1_0
from starlette.requests import HTTPConnection, Request
from starlette.types import Message, Receive
from starlette.websockets import WebSocket

from headrace.directory import AgentCard
from headrace.model.events import TRACEPARENT, Json
from headrace_gateway.extensions import activated, asked_for
from headrace_gateway.refusals import AgentUnknown, CredentialsRefused
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.auth.schemes import schemes_of
from headrace_gateway.server.body import CALLER
from headrace_gateway.server.public_url import public_grpc, public_url
from headrace_gateway.services import Services

AGENT = "/v1/agents/{agent}"
"""Base of one agent's routes; the default agent's are at the root too."""

IDEMPOTENCY_KEY = "Idempotency-Key"
"""Request header: a message sent twice under one key is taken in once."""

_LONGEST_TASK = 64
"""Characters of a task's id that are logged; none of ours is longer."""

_TRACE = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Call:
    """Who asks which agent for what, and what goes with that beside its parameters.

    It may: there is no other way to a call than `call_of` and `SocketCalls.call`.
    """

    operation: str
    """A2A's name of what is asked, whatever the protocol calls it."""
    caller: Caller
    card: AgentCard
    """The agent asked."""
    cursor: str
    """Behind which event to go on; empty: the client has none."""
    idempotency_key: str | None
    """Under which the message is sent, as it stands in the header; None: there is none."""
    extensions: tuple[str, ...]
    """URIs of the extensions that the call activates."""
    extension_headers: tuple[str, ...]
    """Names of the headers in which it does so, and the answer says so."""
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
        return dict.fromkeys(self.extension_headers, ", ".join(self.extensions))


def caller_of(services: Services, request: Request) -> Caller:
    """Return who sends the request. It is looked up once, and before anything of it is read.

    Raises:
        CredentialsMissing, CredentialsRefused: it does not say who.
    """
    found: Caller | None = request.scope.get(CALLER)
    if found is None:
        found = request.scope[CALLER] = services.callers.of(request.headers, of_any_agent=True)
    return found


def call_of(
    services: Services,
    request: Request,
    operation: str,
    *,
    task: object = "",
    tenant: object = "",
    version: str = PROTOCOL_VERSION_1_0,
) -> Call:
    """Return who asks which agent for A2A's `operation`; whoever gets it, may.

    The agent is the one in the path (or the metadata), else the one that `tenant` names, else the
    default one. A tenant is what a card told its client to say: it says where to go, never who may.

    `task` is the one that is named, for the audit; `version` the one of A2A that is spoken.

    Raises:
        CredentialsMissing, CredentialsRefused: it does not say who.
        AgentUnknown: there is no such agent.
        ExtensionSupportRequiredError: it does not activate what the agent requires.
        NotPermitted: the caller's roles do not include that.
        RateLimited: it, or its tenant, asks too often.
    """
    call = _call(services, request, caller_of(services, request), tenant)
    return _checked(services, replace(call, operation=operation, version=version), task)


class SocketCalls:
    """The calls of one WebSocket, each as its caller may make it then: credentials change."""

    def __init__(self, services: Services, socket: WebSocket) -> None:
        """Find out who asks which agent.

        Raises:
            CredentialsMissing, CredentialsRefused, AgentUnknown, ExtensionSupportRequiredError: as
                `call_of`.
        """
        self._services, self._socket = services, socket
        self._first = _call(
            services, socket, services.callers.of(socket.headers, of_any_agent=True)
        )

    @property
    def caller(self) -> Caller:
        """Who opened it."""
        return self._first.caller

    @property
    def headers(self) -> dict[str, str]:
        """What the answer to its opening says in its headers."""
        return self._first.headers

    def call(
        self, operation: str, *, task: object = "", cursor: str = "", key: str | None = None
    ) -> Call:
        """Return a call of A2A's `operation`, with the cursor and Idempotency-Key of its frame.

        Raises:
            CredentialsMissing, CredentialsRefused: they don't stand for the caller any more.
            NotPermitted, RateLimited: as `call_of`.
        """
        services, first = self._services, self._first
        anyone = services.callers.of(self._socket.headers, of_any_agent=True)
        caller = _asking(services, self._socket, first.card, anyone)
        if caller != self._first.caller:
            raise CredentialsRefused("these credentials now belong to another owner")
        call = replace(
            self._first,
            operation=operation,
            caller=caller,
            cursor=cursor,
            idempotency_key=key,
            receive=_never,
        )
        return _checked(self._services, call, task)


def _checked(services: Services, call: Call, task: object) -> Call:
    named = task[:_LONGEST_TASK] if isinstance(task, str) else ""
    services.access.check(call.caller, call.agent, call.operation, named)
    return call


def _call(
    services: Services, request: Request | WebSocket, caller: Caller, tenant: object = ""
) -> Call:
    """Return a call of nothing yet."""
    stated = request.path_params.get("agent")
    name = stated or _routed(services, tenant)
    card = services.directory.card(name)
    if card is None:
        raise AgentUnknown.called(name, at_root=stated is None)
    caller = _asking(services, request, card, caller)
    asked = asked_for(request)
    return Call(
        operation="",
        caller=caller,
        card=card,
        cursor=cursor_of(request),
        idempotency_key=request.headers.get(IDEMPOTENCY_KEY),
        extensions=activated(card, list(chain.from_iterable(asked.values()))),
        extension_headers=tuple(asked),
        receive=request.receive,
        traceparent=_trace(request.headers.get("traceparent", "")),
        base=public_url(request, services.settings),
        grpc=public_grpc(request, services.settings),
    )


def _asking(services: Services, request: HTTPConnection, card: AgentCard, caller: Caller) -> Caller:
    """Return who asks the agent: the `caller`, unless the agent says how it is to be asked."""
    if not (card.security.schemes or card.security.require):
        return services.callers.of(request.headers) if caller.has_agents_key else caller
    schemes = schemes_of(card, services.callers.known)
    return services.callers.asking(request.headers, schemes)


def _trace(stated: str) -> str:
    return stated if _TRACE.fullmatch(stated) else ""


def _routed(services: Services, tenant: object) -> str:
    is_agent = isinstance(tenant, str) and services.directory.card(tenant) is not None
    return str(tenant) if is_agent else services.default_agent


def cursor_of(request: HTTPConnection) -> str:
    """Return behind which event the client wants to go on; empty: it has no cursor."""
    # EventSource sends the header by itself when it reconnects, so it is the newer one.
    stated = request.headers.get("last-event-id") or request.query_params.get("after")
    return (stated or "").strip()


async def _never() -> Message:
    """Tell nothing of the client: a WebSocket's calls are cancelled when it goes."""
    never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    return await never
