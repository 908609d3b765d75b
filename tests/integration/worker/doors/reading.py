"""What a log says, as tests of doors look at it."""

from headrace import parts
from headrace.events import Json
from headrace.fold import TaskFold
from tests.support.desk import Task


async def folded(task: Task) -> Json:
    """Return the task once its leg has ended."""
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
    """Return the tool calls that the agent said whole: names and arguments."""
    found = filter(None, map(parts.tool_call, said(task)))
    return [(call.name, call.arguments) for call in found]


def results(task: Json) -> list[tuple[object, str]]:
    """Return the tool results that the agent said: contents and errors."""
    found = filter(None, map(parts.tool_result, said(task)))
    return [(result.content, result.error) for result in found]


def thoughts(task: Json) -> str:
    """Return the agent's reasoning."""
    return parts.thinking_of(said(task))
