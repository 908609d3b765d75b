"""Calls: one call of an operation, for all bindings."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

from a2a.utils.constants import PROTOCOL_VERSION_1_0
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.websockets import WebSocket

from headrace import log_context, tracing
from headrace.directory import AgentCard
from headrace.log_context import LogContext
from headrace.model.events import TRACEPARENT, Json
from headrace.model.subjects import encode_token
from headrace_gateway.extensions import HEADERS, activated, requested_extensions
from headrace_gateway.refusals import (
    AgentUnknown,
    CredentialsMissing,
    CredentialsRefused,
    Malformed,
    NotPermitted,
    Violation,
)
from headrace_gateway.request_span import begin_span, note_named_task
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.body import CALLER, SMALL
from headrace_gateway.server.endpoints import headers_of
from headrace_gateway.server.long_responses import NEVER, Disconnects, disconnects_of
from headrace_gateway.server.open_requests import name_operation
from headrace_gateway.services import Services
from headrace_gateway.tasks.idempotency import KeyedRequest

AGENT = "/v1/agents/{agent}"
"""Base path of one agent's routes; the default agent's are at the root too."""

IDEMPOTENCY_KEY = "Idempotency-Key"
"""Request header: a message sent twice under one key is accepted once."""

_KEY = re.compile(r"[\x20-\x7e]{1,255}")

_IDEMPOTENCY_KEY, _LAST_EVENT_ID = IDEMPOTENCY_KEY.lower(), "last-event-id"

_LISTS = "ListTasks"

type _Called = tuple[Caller, AgentCard, tuple[str, ...], tuple[str, ...]]
"""A call's caller, card, extensions and extension headers. Made for each request, where a class
takes a microsecond longer."""

type Admission = tuple[_Called, str, str, str]
"""A call that passed access control: who calls what, the operation, its traceparent, and the task
as in logs, if it was known."""

_LONGEST_TASK = 64
"""Maximum logged characters of a task id; no valid id is longer."""


@dataclass(frozen=True, slots=True)
class Call:
    """A permitted call: caller, agent, operation, and what is sent besides its parameters.

    Every call has passed access control, because only `call_of`, `admitted_call` and
    `SocketCalls.call` create one.
    """

    operation: str
    """A2A's name of the operation, for all protocols."""
    caller: Caller
    card: AgentCard
    """The called agent."""
    cursor: str
    """The cursor after which to continue; empty if the client has none."""
    idempotency_key: str | None
    """The Idempotency-Key header, or None."""
    extensions: tuple[str, ...]
    """URIs of the extensions that the call activates."""
    extension_headers: tuple[str, ...]
    """Names of the headers that activate them, in the request and in the answer."""
    disconnects: Disconnects
    """Reports when the client disconnects."""
    connection: HTTPConnection
    """The request, until its response has begun: for the addresses that its client can reach."""
    traceparent: str = ""
    """W3C trace context of the call: its span's if traces are exported, else the client's; empty if
    that is missing or invalid."""
    version: str = PROTOCOL_VERSION_1_0
    """The client's A2A version, major and minor number."""
    owner: str = ""
    """The owner, as in the credentials, to whose tasks a list is limited; empty: it is not."""

    @property
    def marks(self) -> Json:
        """Metadata of the call that is kept in its input."""
        return {TRACEPARENT: self.traceparent} if self.traceparent else {}

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.card.name

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every answer to the call."""
        if not self.extensions:
            return {}
        return dict.fromkeys(self.extension_headers, ", ".join(self.extensions))


def caller_of(services: Services, request: Request) -> Caller:
    """Return the request's caller, looked up once and before its body is read.

    Raises:
        CredentialsMissing, CredentialsRefused: the request does not identify a caller.
    """
    found: Caller | None = request.scope.get(CALLER)
    if found is None:
        callers = services.callers
        found = callers.everyone or callers.of(request.headers, of_any_agent=True)
        request.scope[CALLER] = found
    if services.access.counts:
        services.access.expect(found, request.scope.get("path_params", {}).get("agent", ""))
    return found


def callable_agents(services: Services, request: Request, operation: str) -> list[AgentCard]:
    """Return the agents with which the request's caller may carry out A2A's `operation`, by name.

    Raises:
        CredentialsMissing, CredentialsRefused: the request does not identify a caller.
    """
    caller, found = caller_of(services, request), list[AgentCard]()
    for card in sorted(services.directory.cards(), key=lambda card: card.name):
        with suppress(CredentialsMissing, CredentialsRefused):
            if _asking(services, request.headers, card, caller).may(card.name, operation):
                found.append(card)
    return found


def check_unchanged(
    services: Services, headers: Headers, caller: Caller, card: AgentCard | None = None
) -> None:
    """Check that the request with these headers would still come from the same caller.

    `card` is the agent's that it called, if it called one.

    Raises:
        CredentialsRefused: the credentials have been withdrawn, or belong to another owner.
        NotPermitted: their permissions have changed.
    """
    anyone = services.callers.of(headers, of_any_agent=True)
    now = _same_caller(caller, anyone if card is None else _asking(services, headers, card, anyone))
    if now.grants != caller.grants:
        raise NotPermitted("your permissions have changed; connect again")


def _same_caller(before: Caller, now: Caller) -> Caller:
    """Return `now`, with its present permissions, if it is the caller that it was `before`."""
    if now != before:
        raise CredentialsRefused("these credentials now belong to another owner")
    return now


async def call_of(
    services: Services,
    request: Request,
    operation: str,
    *,
    task: object = "",
    tenant: object = "",
    version: str = PROTOCOL_VERSION_1_0,
    **named: str,
) -> Call:
    """Return the call of A2A's `operation`, after authentication and access control.

    `task` is the task id for the audit log and traces; `version` is the client's A2A version.
    `tenant` is as of `admit`. `named`: further fields of the audit log that name what the operation
    concerns.

    Raises:
        HeadraceError, ExtensionSupportRequiredError: as `admit`.
    """
    admission = admit(services, request, operation, task=task, tenant=tenant, **named)
    return await admitted_call(services, request, admission, version=version, **named)


async def admitted_call(
    services: Services,
    request: Request,
    admission: Admission,
    *,
    task: object = "",
    version: str = PROTOCOL_VERSION_1_0,
    **named: str,
) -> Call:
    """Return the call of an admitted request; arguments as of `call_of`.

    `task`: the task id, if the body named it since.
    """
    called, operation, traceparent, about = admission
    if task and task != about and (since_named := _logged(task)):
        about = since_named
        note_named_task(about)
    await services.access.permitted(called[0], called[1].name, operation, about, **named)
    return _call(request, called, operation, traceparent=traceparent, version=version)


async def begin_as(
    services: Services, request: Request, caller: Caller, operation: str, *, agent: str, task: str
) -> None:
    """Begin an operation on a task of an agent, after access control.

    The `caller` is known without credentials, from a URL that the fleet has signed.

    Raises:
        RateLimited: the caller, its tenant or the agent has reached its rate limit.
    """
    name_operation(operation)
    _begin(request, agent, operation, task)
    services.access.admit(caller, agent, operation, task)
    await services.access.permitted(caller, agent, operation, task)


def admit(
    services: Services,
    request: Request,
    operation: str,
    *,
    task: object = "",
    tenant: object = "",
    **named: str,
) -> Admission:
    """Authenticate the caller and check its roles and rates, for `admitted_call`.

    Where the route names the operation, this comes before the body is read. The request is counted
    even if its body is malformed.

    The agent is the one in the path (or the metadata), else the one that `tenant` names, else the
    default one. The tenant comes from an agent card: it only routes, and grants no permission.
    `task` and `named` as of `call_of`, if they are known.

    Raises:
        CredentialsMissing, CredentialsRefused: the request does not identify a caller.
        AgentUnknown: no such agent.
        ExtensionSupportRequiredError: an extension that the agent requires is not activated.
        NotPermitted: the caller's roles do not include the operation.
        RateLimited: the caller or its tenant has reached its rate limit.
    """
    name_operation(operation)
    called = _called(services, request, caller_of(services, request), tenant)
    agent, about = called[1].name, _logged(task)
    traceparent = _begin(request, agent, operation, about)
    services.access.admit(called[0], agent, operation, about, **named)
    return called, operation, traceparent, about


class SocketCalls:
    """The calls of one WebSocket, each checked when it is made, because credentials change."""

    def __init__(self, services: Services, socket: WebSocket) -> None:
        """Authenticate the caller and find the agent.

        Raises:
            CredentialsMissing, CredentialsRefused, AgentUnknown, ExtensionSupportRequiredError: as
                `call_of`.
        """
        self._services, self._socket = services, socket
        caller = services.callers.of(socket.headers, of_any_agent=True)
        self._first = _call(socket, _called(services, socket, caller), "")

    @property
    def caller(self) -> Caller:
        """The caller that opened the WebSocket."""
        return self._first.caller

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer to the opening request."""
        return self._first.headers

    def authenticate(self) -> Caller:
        """Return the caller, as its credentials are now.

        Raises:
            CredentialsMissing, CredentialsRefused: they no longer identify the caller.
        """
        services, first, headers = self._services, self._first, self._socket.headers
        anyone = services.callers.of(headers, of_any_agent=True)
        caller = _same_caller(first.caller, _asking(services, headers, first.card, anyone))
        if services.access.counts:
            services.access.expect(caller)
        return caller

    def check_rate(self, size: int) -> None:
        """Check that a frame of `size` bytes may be parsed, before its request begins.

        Raises:
            RateLimited: it is not `SMALL`, and the caller, its tenant or the agent has reached its
                rate limit.
        """
        if size > SMALL:
            self._services.access.check_rate(self.caller, self._first.agent)

    def counted(self, error: Exception) -> Exception:
        """Count a frame that `error` refused before its request began; see `Access.counted`."""
        return self._services.access.counted(self.caller, error)

    async def call(
        self,
        operation: str,
        *,
        caller: Caller,
        task: object = "",
        cursor: str = "",
        key: str | None = None,
        traceparent: str | None = None,
        **named: str,
    ) -> Call:
        """Return a call of A2A's `operation`, with what its frame has in place of headers.

        Args:
            operation: A2A's name of the operation.
            caller: The result of `authenticate`, which comes before the frame's body is read.
            task: The task id for the audit log and traces.
            cursor: The cursor after which to resume.
            key: The Idempotency-Key.
            traceparent: The W3C trace context; None: that of the opening request.
            named: Further fields of the audit log, as of `call_of`.

        Raises:
            CredentialsMissing, CredentialsRefused: the credentials no longer identify the caller.
            NotPermitted, RateLimited: as `call_of`.
        """
        name_operation(operation)
        services, first = self._services, self._first
        agent, about = first.agent, _logged(task)
        own_traceparent = _begin(self._socket, agent, operation, about, traceparent)
        services.access.admit(caller, agent, operation, about, **named)
        await services.access.permitted(caller, agent, operation, about, **named)
        return replace(
            first,
            operation=operation,
            caller=caller,
            cursor=cursor,
            idempotency_key=key,
            disconnects=NEVER,
            traceparent=own_traceparent,
        )


def _begin(
    connection: HTTPConnection, agent: str, operation: str, task: str, stated: str | None = None
) -> str:
    """Begin a call's span and its log lines, and return its traceparent.

    This comes before access control, so that the audit log names the trace. `stated` is the call's
    own traceparent, where it is one of several on the connection.
    """
    traceparent = ""
    if stated is not None:
        traceparent = tracing.stated_traceparent({tracing.TRACEPARENT: stated}) or ""
    elif tracing.TRACEPARENT in headers_of(connection.scope).first:
        traceparent = tracing.stated_traceparent(connection.headers) or ""
    if tracing.is_enabled():
        traceparent = begin_span(connection, operation, agent, traceparent, task)
    log_context.begin(LogContext(task, agent=agent, traceparent=traceparent))
    return traceparent


def _logged(task: object) -> str:
    """Return a task id that a client names, as logs and traces contain it."""
    return task[:_LONGEST_TASK] if isinstance(task, str) else ""


def _called(
    services: Services, request: HTTPConnection, caller: Caller, tenant: object = ""
) -> _Called:
    scope = request.scope
    stated = scope.get("path_params", {}).get("agent")
    name = stated or _routed(services, tenant)
    card = services.directory.content.cards.get(name)
    if card is None:
        raise AgentUnknown.called(name, at_root=stated is None)
    if name in services.directory.content.routes:
        chosen = services.directory.chosen_card(name, caller.tenant, request.headers)
        if chosen is not None:
            caller, card = replace(caller, chosen_version=chosen.pinned_version), chosen
    if caller.has_agents_key or card.security.schemes or card.security.require:
        caller = _asking(services, request.headers, card, caller)
    may_activate = scope.get("query_string") or not HEADERS.isdisjoint(headers_of(scope).first)
    if not may_activate and not card.extensions:
        return caller, card, (), ()
    extensions = requested_extensions(request)
    active = activated(card, list(chain.from_iterable(extensions.values())))
    return caller, card, active, tuple(extensions)


def _call(
    request: Request | WebSocket,
    called: _Called,
    operation: str,
    *,
    traceparent: str = "",
    version: str = PROTOCOL_VERSION_1_0,
) -> Call:
    caller, card, active, names = called
    scope = request.scope
    headers, has_query = headers_of(scope).first, bool(scope.get("query_string"))
    return Call(
        operation=operation,
        caller=caller,
        card=card,
        cursor=cursor_of(request) if has_query or _LAST_EVENT_ID in headers else "",
        idempotency_key=headers.get(_IDEMPOTENCY_KEY),
        extensions=active,
        extension_headers=names,
        disconnects=_disconnects_of(request),
        connection=request,
        traceparent=traceparent,
        version=version,
        owner=request.query_params.get("owner", "") if operation == _LISTS else "",
    )


def keyed_request(call: Call, fingerprint: Callable[[], str]) -> KeyedRequest | None:
    """Return the request under its idempotency key, or None if it has no key.

    Raises:
        Malformed: the header is not a valid key.
    """
    key = call.idempotency_key
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise Malformed([Violation(IDEMPOTENCY_KEY, "must be 1 to 255 printable ASCII characters")])
    return KeyedRequest(call.caller, call.agent, key, fingerprint())


def listed_owner(call: Call) -> str | None:
    """Return the owner, as a token, whose tasks the caller lists. None: those of all owners.

    Raises:
        InvalidName: the call names an owner that can't exist.
        NotPermitted: it names another owner, and the caller is no operator.
    """
    operates = call.caller.operates(call.agent, _LISTS)
    if not call.owner:
        return None if operates else call.caller.owner
    owner = encode_token(call.owner)
    if owner != call.caller.owner and not operates:
        raise NotPermitted("only operators may list the tasks of other owners")
    return owner


def _asking(services: Services, headers: Headers, card: AgentCard, caller: Caller) -> Caller:
    """Return the agent's caller: `caller`, unless the agent has schemes, or the key is one's."""
    if not (card.security.schemes or card.security.require):
        return services.callers.of(headers) if caller.has_agents_key else caller
    return services.callers.of_agent(card, headers)


def _routed(services: Services, tenant: object) -> str:
    is_agent = isinstance(tenant, str) and services.directory.card(tenant) is not None
    return str(tenant) if is_agent else services.default_agent


def cursor_of(request: HTTPConnection) -> str:
    """Return the client's cursor, or an empty string."""
    # The header takes precedence: EventSource sets it when it reconnects, so it is newer.
    stated = request.headers.get(_LAST_EVENT_ID) or request.query_params.get("after")
    return (stated or "").strip()


def _disconnects_of(request: Request | WebSocket) -> Disconnects:
    if isinstance(request, WebSocket):
        return NEVER  # Its calls are cancelled.
    return disconnects_of(request.scope, request.receive)
