"""Read a log for tests of adapters."""

import orjson

from headrace.model import parts
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from tests.support.task_submitter import Task


async def folded(task: Task) -> Json:
    """Return the task once its run has ended."""
    fold = TaskFold()
    for entry in await task.ended():
        fold.apply_entry(entry)
    return fold.task()


def answer(task: Json) -> str:
    """Return the text of its artifacts."""
    return "".join(parts.text_of(artifact["parts"]) for artifact in task.get("artifacts", []))


def state(task: Json) -> str:
    """Return the task's state, without what all of A2A's states begin with."""
    return str(task["status"]["state"]).removeprefix("TASK_STATE_")


def words(task: Json) -> str:
    """Return the text of the last status."""
    message = task["status"].get("message", {})
    return "".join(part.get("text", "") for part in message.get("parts", []))


def said(task: Json) -> list[Json]:
    """Return the parts of the agent's messages."""
    return [
        part
        for message in task.get("history", [])
        if message["role"] == "ROLE_AGENT"
        for part in message["parts"]
    ]


def calls(task: Json) -> list[tuple[str, object]]:
    """Return the tool calls that the agent said: names and arguments, also those that streamed."""
    found: dict[str, tuple[str, object]] = {}
    streamed: dict[str, str] = {}
    for part in said(task):
        if (call := parts.tool_call(part)) is not None:
            found[call.id] = call.name, call.arguments
        elif parts.is_partial_tool_call(part):
            name = parts.tool_call_id(part)
            streamed[name] = streamed.get(name, "") + part["text"]
            found[name] = parts.tool_name(part), streamed[name]
    return [
        (name, orjson.loads(text or "{}") if isinstance(text, str) else text)
        for name, text in found.values()
    ]


def results(task: Json) -> list[tuple[object, str]]:
    """Return the tool results that the agent said: contents and errors."""
    found = filter(None, map(parts.tool_result, said(task)))
    return [(result.content, result.error) for result in found]


def speakers(task: Json) -> list[tuple[str, str]]:
    """Return which agents went on with the task, by name, and how each ended."""
    found = list[tuple[str, str]]()
    for part in said(task):
        if parts.event_type(part) == parts.SUBAGENT_STARTED:
            found.append(("started", part["data"]["name"]))
        elif parts.event_type(part) == parts.SUBAGENT_FINISHED:
            found.append(("finished", part["data"]["outcome"]))
    return found


def thoughts(task: Json) -> str:
    """Return the agent's reasoning."""
    return parts.thinking_of(said(task))
