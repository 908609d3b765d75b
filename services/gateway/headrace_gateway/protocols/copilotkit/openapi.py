"""What the OpenAPI document says of the routes of CopilotKit's client."""

from headrace.model.events import Json
from headrace_gateway.openapi.operation import (
    ANY_OBJECT,
    FLAG,
    TEXT,
    TIME,
    ApiOperation,
    ApiSection,
    answer,
    body,
    described,
    events,
    list_of,
    members,
    one_of,
    or_null,
    whole,
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

_THREAD: Json = members(
    {
        "id": TEXT,
        "agentId": TEXT,
        "name": or_null(TEXT),
        "archived": FLAG,
        "createdAt": TIME,
        "updatedAt": TIME,
        "lastRunAt": TIME,
    }
)
_ONE_THREAD = f"{BASE}/threads/{{thread}}"
_OF_AGENT: Json = {"agentId": TEXT}
_THREADS = (
    ApiOperation(
        "GET",
        f"{BASE}/threads",
        "ListThreadsInRuntime",
        "List the caller's threads with an agent",
        answer(members({"threads": list_of(_THREAD), "nextCursor": or_null(TEXT)})),
        query={
            "agentId": TEXT,
            "includeArchived": one_of("false", "true"),
            "limit": whole(1, 100, 100),
            "cursor": described(TEXT, "`nextCursor` of the page before."),
        },
    ),
    ApiOperation(
        "POST",
        f"{_ONE_THREAD}/archive",
        "ArchiveThreadInRuntime",
        "Archive a thread",
        answer(_THREAD),
        body=body(members({}, _OF_AGENT), may_be_empty=True),
    ),
    ApiOperation(
        "PATCH",
        _ONE_THREAD,
        "ChangeThreadInRuntime",
        "Rename a thread, archive it or restore it",
        answer(_THREAD),
        body=body(members({}, {"name": TEXT, "archived": FLAG, **_OF_AGENT})),
    ),
    ApiOperation(
        "DELETE",
        _ONE_THREAD,
        "DeleteThreadInRuntime",
        "Erase a thread with its tasks",
        answer(members({"success": FLAG})),
        body=body(members({}, _OF_AGENT), may_be_empty=True),
    ),
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
        *_THREADS,
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
