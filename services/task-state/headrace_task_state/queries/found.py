"""A task as it was found in the store."""

import orjson

from headrace.log.logged_task import LoggedTask
from headrace.model.events import Json
from headrace.model.fold import Change, Standing, TaskFold
from headrace_task_state.store import Fields, StoredTask


def read_found(stored: StoredTask) -> LoggedTask:
    """Return the task that the store holds."""
    fields = stored.fields
    standing = _standing(stored.task, fields)
    return LoggedTask(
        TaskFold.restored(standing, stored.history, stored.artifacts),
        owner=fields["owner"],
        agent=fields["agent"],
        log=fields["log"],
        sequence=int(fields["sequence"]),
        traceparent=fields["traceparent"] if fields.get("traceparent") else None,
    )


def _standing(task: str, fields: Fields) -> Standing:
    standing = Standing(
        task,
        fields["context"],
        status=_json(fields, "status"),
        status_generation=int(fields.get("status_generation", 0)),
    )
    if "answer" in fields:
        generation = int(fields["answer_generation"])
        standing.take(Change(generation, answer=_json(fields, "answer")))
    standing.generation = int(fields["generation"])
    return standing


def _json(fields: Fields, name: str) -> Json:
    value: Json = orjson.loads(fields.get(name, "{}"))
    return value
