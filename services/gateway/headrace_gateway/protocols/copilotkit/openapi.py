"""What the OpenAPI document says of the routes of CopilotKit's client."""

from headrace.model.events import Json
from headrace_gateway.openapi.operation import (
    ANY_OBJECT,
    FLAG,
    TEXT,
    ApiOperation,
    ApiSection,
    answer,
    body,
    events,
    members,
    one_of,
)
from headrace_gateway.protocols.copilotkit.runtime import BASE

_AGENT = f"{BASE}/agent/{{agent}}"

_INFO: Json = {
    "type": "object",
    "required": ["version", "agents"],
    "properties": {
        "version": TEXT,
        "agents": {
            "type": "object",
            "additionalProperties": members(
                {"name": TEXT, "description": TEXT, "className": TEXT, "capabilities": ANY_OBJECT}
            ),
        },
    },
}

_ENVELOPE: Json = members(
    {"method": one_of("info", "agent/run", "agent/connect", "agent/stop")},
    {"params": members({}, {"agentId": TEXT, "threadId": TEXT}), "body": ANY_OBJECT},
)

SECTION = ApiSection(
    "CopilotKit",
    "The runtime that CopilotKit's client expects, over the same runs as AG-UI's routes.",
    (
        ApiOperation("GET", f"{BASE}/info", "GetRuntimeInfo", "List the agents", answer(_INFO)),
        ApiOperation(
            "POST",
            f"{_AGENT}/run",
            "RunInRuntime",
            "Start a run; the body is AG-UI's RunAgentInput",
            events("AG-UI's events."),
            body=body(ANY_OBJECT),
        ),
        ApiOperation(
            "POST",
            f"{_AGENT}/connect",
            "ConnectInRuntime",
            "Follow a thread; the body is AG-UI's RunAgentInput",
            events("AG-UI's events; none if the thread has no runs."),
            body=body(ANY_OBJECT),
        ),
        ApiOperation(
            "POST",
            f"{_AGENT}/stop/{{thread}}",
            "StopInRuntime",
            "Stop the thread's newest run, or the one in the body",
            answer(members({"stopped": FLAG}, {"message": TEXT})),
            body=body(members({}, {"runId": TEXT}), may_be_empty=True),
        ),
        ApiOperation(
            "POST",
            BASE,
            "CallRuntime",
            "Call one of the methods above through a single URL",
            events("As the method's own route.", ANY_OBJECT),
            body=body(_ENVELOPE),
        ),
    ),
    error=members({"error": ANY_OBJECT, "message": TEXT}),
)
