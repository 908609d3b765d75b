"""What the OpenAPI document says of AG-UI's routes, from AG-UI's own models."""

from collections.abc import Mapping

from ag_ui.core import AgentCapabilities, RunAgentInput

from headrace.model.events import Json
from headrace_gateway.call import AGENT
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
    ref,
)

BASE = f"{AGENT}/ag-ui"

_EVENTS = "AG-UI's events."
_AGAIN = f"{_EVENTS} 204: nothing follows."
_LAST_EVENT_ID = {
    "Last-Event-ID": described(TEXT, "The id of the last event that the client has received.")
}

_NAMED: Mapping[str, Json] = {
    "threadId": TEXT,
    "runId": described(TEXT, "The run; without it, the thread's newest one."),
}

_THREAD: Json = members(
    {
        "threadId": TEXT,
        "messages": list_of(ANY_OBJECT),
        "state": {},
        "runs": list_of(
            members(
                {
                    "runId": TEXT,
                    "taskId": TEXT,
                    "startedAt": TIME,
                    "over": FLAG,
                    "answers": described(
                        list_of(ANY_OBJECT),
                        "The answers that began the run, as in AG-UI's resume.",
                    ),
                    "events": described(list_of(ANY_OBJECT), "AG-UI's events of the run."),
                }
            )
        ),
    }
)

_NAMED_BODY = body({"type": "object", "properties": dict(_NAMED), "required": ["threadId"]})

SECTION = ApiSection(
    "AG-UI",
    "Runs as AG-UI clients start and follow them.",
    (
        ApiOperation(
            "POST",
            BASE,
            "RunAgent",
            "Start a run, and follow it",
            events(_EVENTS),
            headers=_LAST_EVENT_ID,
            body=body(ref(RunAgentInput)),
        ),
        ApiOperation(
            "GET",
            f"{BASE}/attach",
            "AttachByGet",
            "Follow a run again, as an EventSource does",
            events(_AGAIN),
            query=_NAMED,
            headers=_LAST_EVENT_ID,
        ),
        ApiOperation(
            "POST",
            f"{BASE}/attach",
            "Attach",
            "Follow a run again: after a cursor, or from its current state",
            events(_AGAIN),
            headers=_LAST_EVENT_ID,
            body=_NAMED_BODY,
        ),
        ApiOperation(
            "POST",
            f"{BASE}/connect",
            "ConnectToThread",
            "Follow the newest run of a thread",
            events(_AGAIN),
            query={"stay": described(TEXT, "1: the stream goes on with all later runs.")},
            body=_NAMED_BODY,
        ),
        ApiOperation(
            "GET",
            f"{BASE}/capabilities",
            "GetCapabilities",
            "Get what the agent can do",
            answer(ref(AgentCapabilities)),
        ),
        ApiOperation(
            "POST",
            f"{BASE}/stop",
            "StopRun",
            "Stop a run for all its clients",
            answer(members({"threadId": TEXT, "runId": TEXT, "stopped": FLAG})),
            body=_NAMED_BODY,
        ),
        ApiOperation(
            "GET",
            f"{BASE}/threads/{{thread}}",
            "GetThread",
            "Get a thread's messages, state and runs",
            answer(ref("Thread")),
        ),
    ),
    error=ref("Error"),
    schemas={"Thread": _THREAD},
    models=(RunAgentInput, AgentCapabilities),
)
