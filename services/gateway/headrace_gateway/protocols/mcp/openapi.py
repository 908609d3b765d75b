"""What the OpenAPI document says of MCP's route."""

from headrace.model.events import Json
from headrace_gateway.openapi.operation import (
    ANY_OBJECT,
    INTEGER,
    TEXT,
    ApiOperation,
    ApiSection,
    body,
    described,
    events,
    members,
    one_of,
    ref,
)
from headrace_gateway.protocols.mcp.routes import PATH

_ID: Json = {"type": ["string", "integer", "null"]}

_REQUEST: Json = members(
    {"jsonrpc": one_of("2.0"), "method": TEXT}, {"id": _ID, "params": ANY_OBJECT}
)
_ANSWER: Json = members(
    {"jsonrpc": one_of("2.0"), "id": _ID},
    {
        "result": ANY_OBJECT,
        "error": members({"code": INTEGER, "message": TEXT}, {"data": {}}),
    },
)

_SESSION = {"Mcp-Session-Id": described(TEXT, "The session of an earlier revision's client.")}

SECTION = ApiSection(
    "MCP",
    "The Model Context Protocol, over Streamable HTTP: each agent is a tool.",
    (
        ApiOperation(
            "POST",
            PATH,
            "CallMcp",
            "Send a JSON-RPC message. 202: it was a notification",
            events("The answer, or the events that lead to it.", ref("McpResponse")),
            headers={"MCP-Protocol-Version": TEXT, **_SESSION},
            body=body(ref("McpRequest")),
        ),
        ApiOperation(
            "GET",
            PATH,
            "ResumeMcp",
            "Resume the stream of a call after an event",
            events("The events that follow."),
            headers={"Last-Event-ID": TEXT, **_SESSION},
        ),
        ApiOperation(
            "DELETE",
            PATH,
            "EndMcpSession",
            "End a session of an earlier revision's client",
            {200: {"description": "Done."}},
            headers=_SESSION,
        ),
    ),
    error=ref("McpResponse"),
    schemas={"McpRequest": _REQUEST, "McpResponse": _ANSWER},
)
