"""What MCP's clients get of a task: the result of the tool's call, and the state of a long one."""

from collections.abc import Iterator
from urllib.parse import quote

from headrace.model.events import Json
from headrace.model.file_links import SCHEME
from headrace.model.parts import SUBAGENT_RUN_ID, metadata_of, text_of, words_of
from headrace.model.task import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, REJECTED
from headrace_gateway.protocols.mcp.questions import AgentQuestion

type FoundTask = tuple[str, Json]
"""An agent's name, and a task of it."""

POLL_MS = 500
"""Suggested pause between two questions for a task's state."""

ITEMS = "artifacts"
"""In the address of a file inside a log: what precedes its artifact and part."""

_SHOWN = 300
"""Characters of the answer so far that a working task states: its end."""

_PREFIX = "TASK_STATE_"
_UNSUCCESSFUL = frozenset({FAILED, REJECTED, CANCELED})


def handle_of(agent: str, task: str) -> str:
    """Return the id of a task for MCP's clients: it names the agent, too."""
    return f"{agent}.{task}"


def result_of(agent: str, task: Json, question: AgentQuestion | None = None) -> Json:
    """Return the CallToolResult of a task at the end of a run, `question` if it ended with one."""
    state: str = task["status"]["state"]
    outputs = list(_outputs(task))
    own = [part for _, _, part in outputs]
    said = words_of((task["status"].get("message") or {}).get("parts") or ())
    text = text_of(own)
    if state in _UNSUCCESSFUL or state == INPUT_REQUIRED or not text:
        text = "\n".join(filter(None, (text, said)))
    files = list(_files(agent, task["id"], outputs))
    content: list[Json] = [{"type": "text", "text": text}]
    if question is not None:
        hint = f'To answer, call {agent} again with task "{task["id"]}" and the answer as message.'
        content.append({"type": "text", "text": hint})
    structured: Json = {
        "taskId": task["id"],
        "contextId": task["contextId"],
        "state": state.removeprefix(_PREFIX).lower(),
        "text": text,
    }
    if data := [part["data"] for part in own if "data" in part]:
        structured["data"] = data
    if files:
        structured["files"] = [{key: one[key] for key in ("uri", "name")} for one in files]
    content += files
    return {
        "content": content,
        "structuredContent": structured,
        "isError": state in _UNSUCCESSFUL,
    }


def state_of(
    found: FoundTask, created: str, question: AgentQuestion | None, *, elicits: bool
) -> Json:
    """Return a task of the Tasks extension with its result or its question.

    `question` is the one that it waits with. A client that does not show forms gets it as the
    result, because it could not answer it here.
    """
    agent, task = found
    status = task["status"]
    known = _known(handle_of(agent, task["id"]), status, created)
    if question is not None and elicits:
        requests = {question.key: question.elicitation()}
        return {**known, "status": "input_required", "inputRequests": requests}
    if status["state"] == CANCELED:
        return {**known, "status": "cancelled"}
    if question is not None or status["state"] in {COMPLETED, FAILED, REJECTED}:
        result = {"resultType": "complete", **result_of(agent, task, question)}
        return {**known, "status": "completed", "result": result}
    said = text_of(part for _, _, part in _outputs(task))[-_SHOWN:]
    return {**({"statusMessage": said} if said else {}), **known, "status": "working"}


def old_state_of(found: FoundTask, created: str, question: AgentQuestion | None) -> Json:
    """Return a task in the form of the revision that had tasks of its own, without its result."""
    agent, task = found
    status = task["status"]
    known = _known(handle_of(agent, task["id"]), status, created)
    known |= {"ttl": known.pop("ttlMs"), "pollInterval": known.pop("pollIntervalMs")}
    ended = {COMPLETED: "completed", FAILED: "failed", REJECTED: "failed", CANCELED: "cancelled"}
    state = "working" if question is None else "input_required"
    return {**known, "status": ended.get(status["state"], state)}


def _known(handle: str, status: Json, created: str) -> Json:
    known: Json = {
        "taskId": handle,
        "createdAt": created,
        "lastUpdatedAt": status.get("timestamp") or created,
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }
    if said := words_of((status.get("message") or {}).get("parts") or ()):
        known["statusMessage"] = said
    return known


def _outputs(task: Json) -> Iterator[tuple[str, int, Json]]:
    """Yield the agent's own parts with their artifacts and places, without those of child tasks."""
    for artifact in task.get("artifacts") or ():
        for at, part in enumerate(artifact["parts"]):
            if metadata_of(part, SUBAGENT_RUN_ID) is None:
                yield artifact["artifactId"], at, part
    message = task["status"].get("message") or {}
    for at, part in enumerate(message.get("parts") or ()):
        if "text" not in part and "data" not in part:
            yield message.get("messageId", ""), at, part


def _files(agent: str, task: str, outputs: list[tuple[str, int, Json]]) -> Iterator[Json]:
    """Yield links to the files, and small pictures themselves, too."""
    for artifact, at, part in outputs:
        if "raw" not in part and "url" not in part:
            continue
        kind = part.get("mediaType") or "application/octet-stream"
        inside = f"{SCHEME}{agent}/tasks/{task}/{ITEMS}/{quote(artifact, safe='')}/{at}"
        uri = part.get("url") or inside
        name = part.get("filename") or uri.rpartition("/")[2]
        yield {"type": "resource_link", "uri": uri, "name": name, "mimeType": kind}
        if "raw" in part and kind.startswith("image/"):
            yield {"type": "image", "data": part["raw"], "mimeType": kind}
