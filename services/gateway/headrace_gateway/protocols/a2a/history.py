"""How much of a task's history a client asked for."""

from headrace.model.events import Json


def with_history(task: Json, length: int | None) -> Json:
    """Return `task` with the `length` latest messages of its history; None: all, 0: no history."""
    if length is None or len(task.get("history", ())) <= length:
        return task
    rest = {key: value for key, value in task.items() if key != "history"}
    return rest | ({"history": task["history"][-length:]} if length else {})
