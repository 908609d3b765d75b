"""Messages of MCP's clients: JSON-RPC, in the newest revision or in one with a handshake.

In the newest revision each request states its version and its client's capabilities. In the others
the client states them once, in ``initialize``. The session id that it gets there contains what
later requests need of them, so that any gateway answers any request.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

from mcp_types import methods
from pydantic import ValidationError

from headrace.model.events import Json
from headrace_gateway.protocols.mcp.errors import (
    header_mismatch,
    invalid_request,
    unknown_method,
    unsupported_version,
)
from headrace_gateway.refusals import Malformed, Violation

MODERN = "2026-07-28"
"""The newest revision, whose requests are independent of one another."""

HANDSHAKE = ("2025-11-25", "2025-06-18")
"""Revisions with ``initialize``, newest first."""

PRIMING = "2025-11-25"
"""The first revision whose streams may begin with an event that has an id and no data."""

VERSIONS = (MODERN, *HANDSHAKE)

TASKS = "io.modelcontextprotocol/tasks"
"""The Tasks extension."""

SESSION_HEADER = "mcp-session-id"
_VERSION_HEADER = "mcp-protocol-version"
_META = "io.modelcontextprotocol/"
_SESSION = re.compile(r"([ef])-[0-9a-f]{32}")
_NAMED = {
    "tools/call": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The parameter that ``Mcp-Name`` repeats, by method."""

_TASK_METHODS: Mapping[str, tuple[str, ...]] = {
    "tasks/get": (MODERN, *HANDSHAKE[:1]),
    "tasks/cancel": (MODERN, *HANDSHAKE[:1]),
    "tasks/update": (MODERN,),
    "tasks/result": HANDSHAKE[:1],
}
"""Versions of the methods for tasks, for which the SDK has no models."""

type RpcId = str | int


class McpSession(NamedTuple):
    """What is known of a client since its ``initialize``, all of it in the session's id."""

    id: str
    elicits: bool
    """Whether the client shows forms to its user."""

    @classmethod
    def begun(cls, params: Json) -> Self:
        """Return the session of an ``initialize`` request."""
        elicits = _elicits(params.get("capabilities"))
        return cls(f"{'e' if elicits else 'f'}-{secrets.token_hex(16)}", elicits)

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Self | None:
        """Return the session that a request names; None if it names none of ours."""
        named = _SESSION.fullmatch(headers.get(SESSION_HEADER, ""))
        return None if named is None else cls(named[0], named[1] == "e")


@dataclass(frozen=True, slots=True)
class McpRequest:
    """A request, valid for its revision."""

    id: RpcId
    method: str
    params: Json
    version: str
    session: McpSession | None
    """None in the newest revision, and for clients that don't return the session's id."""

    @property
    def is_modern(self) -> bool:
        """Whether it is of the newest revision."""
        return self.version == MODERN

    @property
    def elicits(self) -> bool:
        """Whether the client shows forms to its user."""
        if self.is_modern:
            return _elicits(self._capabilities)
        return self.session is not None and self.session.elicits

    @property
    def has_tasks(self) -> bool:
        """Whether the client has the Tasks extension."""
        return TASKS in (self._capabilities.get("extensions") or {})

    @property
    def progress_token(self) -> RpcId | None:
        """The token of progress notifications; None: the client wants none."""
        token: RpcId | None = (self.params.get("_meta") or {}).get("progressToken")
        return token

    @property
    def _capabilities(self) -> Json:
        found: Json = (self.params.get("_meta") or {}).get(f"{_META}clientCapabilities") or {}
        return found


@dataclass(frozen=True, slots=True)
class McpNotification:
    """A notification, which gets no response."""

    method: str
    params: Json
    session: McpSession | None


@dataclass(frozen=True, slots=True)
class McpAnswer:
    """A client's response to a request of the server's, which only handshakes have."""

    id: RpcId
    result: Json | None
    """None: the client could not answer."""


_LONGEST_ID = 256
"""Maximum characters of ids and tokens of clients: each event of a stream repeats them."""


def id_of(parsed: object) -> RpcId | None:
    """Return the id for the response to `parsed`; None if it has no valid one."""
    given = parsed.get("id") if isinstance(parsed, dict) else None
    return given if isinstance(given, str | int) and not isinstance(given, bool) else None


def read_message(
    headers: Mapping[str, str], parsed: object
) -> McpRequest | McpNotification | McpAnswer:
    """Return the message in a request's body.

    Raises:
        RpcError: it is no JSON-RPC message, or its headers contradict it, or its revision or method
            is unknown.
        Malformed: its parameters do not fit the method.
    """
    if not isinstance(parsed, dict) or parsed.get("jsonrpc") != "2.0":
        raise invalid_request('the body must be one JSON-RPC message with "jsonrpc": "2.0"')
    params, method = parsed.get("params") or {}, parsed.get("method")
    if not isinstance(params, dict):
        raise Malformed([Violation("params", "must be an object")])
    if "id" not in parsed and isinstance(method, str):
        return McpNotification(method, params, McpSession.of(headers))
    if (request_id := id_of(parsed)) is None:
        raise invalid_request("id must be a string or an integer")
    if _is_long(request_id):
        raise invalid_request(f"id must have at most {_LONGEST_ID} characters")
    if method is None and ("result" in parsed or "error" in parsed):
        result = parsed.get("result")
        return McpAnswer(request_id, result if isinstance(result, dict) else None)
    if not isinstance(method, str):
        raise invalid_request("method must be a string")
    version = _version(headers, method, params)
    request = McpRequest(request_id, method, params, version, McpSession.of(headers))
    if request.is_modern:
        _check_headers(headers, request)
    _check_params(request)
    if (token := request.progress_token) is not None and _is_long(token):
        rule = f"must have at most {_LONGEST_ID} characters"
        raise Malformed([Violation("params._meta.progressToken", rule)])
    return request


def _version(headers: Mapping[str, str], method: str, params: Json) -> str:
    """Return the request's revision."""
    meta = params.get("_meta")
    stated = meta.get(f"{_META}protocolVersion") if isinstance(meta, dict) else None
    header = headers.get(_VERSION_HEADER)
    if method == "initialize":
        return HANDSHAKE[0]
    if stated is None and header in {None, *HANDSHAKE}:
        return header or HANDSHAKE[0]
    if stated != header:
        raise header_mismatch(
            f"the header MCP-Protocol-Version ({header!r}) and {_META}protocolVersion in _meta "
            f"({stated!r}) must be equal"
        )
    if stated != MODERN:
        raise unsupported_version(str(stated), VERSIONS)
    return MODERN


def _check_headers(headers: Mapping[str, str], request: McpRequest) -> None:
    """Check that the headers by which proxies route the request state what its body does."""
    if headers.get("mcp-method") != request.method:
        raise header_mismatch(f"the header Mcp-Method must be the method, {request.method!r}")
    if (parameter := _NAMED.get(request.method)) is None:
        return
    if _decoded(headers.get("mcp-name", "")) != request.params.get(parameter):
        raise header_mismatch(f"the header Mcp-Name must be the parameter {parameter}")


def _decoded(value: str) -> str:
    """Return a header's value, which is in base64 where it is no plain text."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise header_mismatch("the header Mcp-Name is not base64 of UTF-8") from None


def _check_params(request: McpRequest) -> None:
    """Check the method and its parameters.

    Raises:
        RpcError: the revision has no such method.
        Malformed: the parameters do not fit it.
    """
    method, params = request.method, request.params
    if method in _TASK_METHODS:
        if request.version not in _TASK_METHODS[method]:
            raise unknown_method(method, request.version, is_modern=request.is_modern)
        _check_task_params(method, params)
        # All requests have the same _meta.
        method, params = "tools/list", {"_meta": params["_meta"]} if "_meta" in params else {}
    try:
        methods.validate_client_request(method, request.version, params)
    except KeyError:
        raise unknown_method(method, request.version, is_modern=request.is_modern) from None
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        raise Malformed(
            [Violation(".".join(map(str, one["loc"])), one["msg"]) for one in found]
        ) from None


def _is_long(given: RpcId) -> bool:
    return (len(given) if isinstance(given, str) else given.bit_length()) > _LONGEST_ID


def _check_task_params(method: str, params: Json) -> None:
    if not isinstance(params.get("taskId"), str):
        raise Malformed([Violation("params.taskId", "must be a string")])
    if method == "tasks/update" and not isinstance(params.get("inputResponses"), dict):
        raise Malformed([Violation("params.inputResponses", "must be an object")])


def _elicits(capabilities: object) -> bool:
    """Return whether a client shows forms: it does so if it names no mode of elicitation."""
    found = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(found, dict) and (not found or "form" in found)
