"""What the OpenAPI document says of Hector's routes."""

from headrace_gateway.call import AGENT
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
)

_FORMAT = {"format": described(TEXT, "`hector`: answers have the shapes of Hector's A2A.")}

SECTION = ApiSection(
    "Hector",
    "A2A requests as Hector's clients send them.",
    (
        ApiOperation(
            "POST",
            f"{AGENT}/rpc",
            "CallHectorRpc",
            "Call an operation by JSON-RPC, also in the short form of Hector's documents",
            events("The answer, or the events of a streaming operation.", ANY_OBJECT),
            query=_FORMAT,
            body=body(ANY_OBJECT),
        ),
        ApiOperation(
            "POST",
            f"{AGENT}/stream",
            "StreamHectorMessage",
            "Send a message, and follow its task",
            events("The task's events."),
            query=_FORMAT,
            body=body(ANY_OBJECT),
        ),
    ),
    error=members({"error": {"type": ["object", "string"]}}, {"code": INTEGER}),
)
