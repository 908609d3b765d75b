"""The OpenAPI 3.1 document, assembled from the sections of all protocols."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from importlib.metadata import version

from pydantic.json_schema import models_json_schema

from headrace.model.events import Json
from headrace_gateway.openapi.operation import JSON_BODY, SCHEMAS, TEXT, ApiOperation, ApiSection
from headrace_gateway.openapi.protobuf_schema import schemas_of
from headrace_gateway.server.auth.schemes import BEARER, KEY

_ABOUT = (
    "Everything that a Headrace gateway serves over HTTP. The routes below"
    " `/v1/agents/{agent}` of the sections A2A, Hector, AG-UI, Files and AI SDK are also"
    " served for the default agent: A2A's, Hector's and those of files at the root, AG-UI's at"
    " `/api/agent` and the AI SDK's at `/api/chat`. A2A's routes are served with a tenant in front"
    " of them, too, and those of A2A 0.3 below `/v1`. A path may end with a slash where it names"
    " an agent. WebSockets (`…/stream`, `…/ag-ui/ws`) and gRPC are not part of this document."
)

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")

_PARAMETERS = {
    "contextId": "The context.",
    "agent": "The agent's name.",
    "chat": "The chat's id.",
    "id": "The id of the task or, behind pushNotificationConfigs, of the webhook.",
    "index": "The process's number in its role.",
    "name": "The name.",
    "number": "The number of the dead letter.",
    "path": "The file's path.",
    "response": "The response's id.",
    "role": "What the process is.",
    "sealed": "The sealed name of the file, from the answer to `:sign`.",
    "task": "The task's id.",
    "taskId": "The task's id.",
    "task_id": "The task's id.",
    "thread": "The thread's id.",
    "token": "The sealed name of the wait, from the URL that the agent has given.",
    "worker": "The worker's id.",
}


def openapi_document(sections: Sequence[ApiSection]) -> Json:
    """Return the document of these sections."""
    paths: Json = {}
    for section in sections:
        for operation in section.operations:
            path = _PARAMETER.sub(r"{\1}", operation.path)
            paths.setdefault(path, {})[operation.method.lower()] = _shown(operation, section)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headrace", "version": version("headrace"), "description": _ABOUT},
        # Relative to this document: a proxy may have put a prefix before all paths.
        "servers": [{"url": "."}],
        "tags": [{"name": one.name, "description": one.description} for one in sections],
        "paths": paths,
        "components": {
            "schemas": _schemas(sections),
            "responses": {_error_name(section): _error(section) for section in sections},
            "securitySchemes": {
                "bearer": {"type": BEARER.type, "scheme": BEARER.scheme},
                "apiKey": {"type": KEY.type, "name": KEY.name, "in": "header"},
            },
        },
        # A fleet without credentials requires none.
        "security": [{"bearer": []}, {"apiKey": []}, {}],
    }


def _shown(operation: ApiOperation, section: ApiSection) -> Json:
    shown: Json = {
        "tags": [section.name],
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {
            **{str(status): found for status, found in operation.answers.items()},
            "default": {"$ref": f"#/components/responses/{_error_name(section)}"},
        },
    }
    if parameters := _parameters(operation):
        shown["parameters"] = parameters
    if operation.body is not None:
        shown["requestBody"] = operation.body
    if operation.is_public:
        shown["security"] = [{}]
    return shown


def _parameters(operation: ApiOperation) -> list[Json]:
    in_path = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PARAMETERS[name],
            "schema": TEXT,
        }
        for name in _PARAMETER.findall(operation.path)
    ]
    stated = (("query", operation.query), ("header", operation.headers))
    return in_path + [
        {"name": name, "in": place, "schema": schema}
        for place, schemas in stated
        for name, schema in schemas.items()
    ]


def _schemas(sections: Sequence[ApiSection]) -> Json:
    found: Json = {}
    for section in sections:
        found |= {**section.schemas, **schemas_of(section.messages)}
    models = dict.fromkeys(model for section in sections for model in section.models)
    _, shown = models_json_schema(
        [(model, "validation") for model in models], ref_template=SCHEMAS + "{model}"
    )
    of_models: Json = shown.get("$defs", {})
    return {name: found[name] for name in sorted(found)} | of_models


def _error_name(section: ApiSection) -> str:
    return re.sub(r"\W", "", section.name) + "Error"


def _error(section: ApiSection) -> Json:
    codes = f"{HTTPStatus.BAD_REQUEST.value} to {HTTPStatus.SERVICE_UNAVAILABLE.value}"
    return {
        "description": f"An error, with a status from {codes}.",
        "content": {JSON_BODY: {"schema": section.error}},
    }
