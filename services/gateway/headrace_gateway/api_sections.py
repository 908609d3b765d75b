"""The sections of the OpenAPI document: those of all protocols, and the routes outside of them."""

from headrace.model.events import Json
from headrace_gateway.call import AGENT
from headrace_gateway.file_download import PATH
from headrace_gateway.openapi import DOCUMENT, PAGE
from headrace_gateway.openapi.operation import (
    ANY_OBJECT,
    FLAG,
    INTEGER,
    TEXT,
    ApiOperation,
    ApiSection,
    answer,
    members,
    one_of,
    ref,
)
from headrace_gateway.protocols.a2a.openapi import SECTION as A2A
from headrace_gateway.protocols.agui.openapi import SECTION as AG_UI
from headrace_gateway.protocols.ai_sdk.openapi import SECTION as AI_SDK
from headrace_gateway.protocols.copilotkit.openapi import SECTION as COPILOTKIT
from headrace_gateway.protocols.fleet.openapi import SECTION as FLEET
from headrace_gateway.protocols.hector.openapi import SECTION as HECTOR
from headrace_gateway.protocols.mcp.openapi import SECTION as MCP
from headrace_gateway.protocols.openai.openapi import SECTION as OPENAI
from headrace_gateway.server.auth.signed_urls import SIGNED_PATH
from headrace_gateway.wait_calls import PATH as WAITS

_ERROR: Json = members({"error": members({"code": TEXT, "message": TEXT})})

_FILE = {
    200: {
        "description": "The file.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def _text(media_type: str, status: int = 200, description: str = "Done.") -> dict[int, Json]:
    return {status: {"description": description, "content": {media_type: {"schema": TEXT}}}}


_FILES = ApiSection(
    "Files",
    "Files of tasks.",
    (
        ApiOperation("GET", f"{AGENT}{PATH}", "DownloadFile", "Download a file of a task", _FILE),
        ApiOperation(
            "POST",
            f"{AGENT}{PATH}:sign",
            "SignFile",
            "Get a URL that needs no credentials for a while",
            answer(members({"url": TEXT, "expiresInSeconds": INTEGER})),
        ),
        ApiOperation(
            "GET",
            SIGNED_PATH,
            "DownloadSignedFile",
            "Download the file of such a URL",
            _FILE,
            is_public=True,
        ),
    ),
    error=members({"error": ANY_OBJECT}),
)

_WAITING = ApiSection(
    "Waits",
    "Webhooks that runs wait for.",
    (
        ApiOperation(
            "POST",
            WAITS,
            "CallWait",
            "Call a webhook that a run waits for; whoever has its URL may, once",
            answer(members({"state": one_of("stored")}), "The call is stored.", status=202),
            body={"required": False, "content": {"*/*": {"schema": {}}}},
            is_public=True,
        ),
    ),
    error=ref("Error"),
    schemas={"Error": _ERROR},
)

_READINESS: Json = members(
    {
        "status": one_of("ready", "degraded", "unavailable"),
        "nats": FLAG,
        "taskState": FLAG,
    },
    {"note": TEXT},
)

_OPERATIONS = ApiSection(
    "Operations",
    "Health, metrics, this document and the console.",
    (
        ApiOperation(
            "GET",
            "/healthz",
            "GetHealth",
            "Answer while the process runs",
            answer(members({"status": one_of("ok")})),
            is_public=True,
        ),
        ApiOperation(
            "GET",
            "/readyz",
            "GetReadiness",
            "Tell whether NATS and task state answer",
            {
                **answer(ref("Readiness"), "Ready, or degraded."),
                **answer(ref("Readiness"), "NATS does not answer.", status=503),
            },
            is_public=True,
        ),
        ApiOperation(
            "GET",
            "/metrics",
            "GetMetrics",
            "Get the metrics for Prometheus",
            _text("text/plain"),
            is_public=True,
        ),
        ApiOperation(
            "GET",
            DOCUMENT,
            "GetOpenApi",
            "Get this document",
            answer(ANY_OBJECT),
            is_public=True,
        ),
        ApiOperation(
            "GET", PAGE, "GetOpenApiPage", "Read this document", _text("text/html"), is_public=True
        ),
        ApiOperation(
            "GET",
            "/console/{path}",
            "GetConsole",
            "Open the console",
            _text("text/html") | _text("text/plain", 404, "There is no such file."),
            is_public=True,
        ),
    ),
    error={},
    schemas={"Readiness": _READINESS},
)

SECTIONS = (
    A2A,
    AG_UI,
    COPILOTKIT,
    AI_SDK,
    OPENAI,
    MCP,
    HECTOR,
    FLEET,
    _FILES,
    _WAITING,
    _OPERATIONS,
)
"""In the document's order; this is the only complete list."""
