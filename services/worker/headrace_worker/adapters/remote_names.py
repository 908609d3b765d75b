"""Which task of an outside agent a task of ours stands for, as its log says.

The task's metadata show it to clients, and have what clients and agents elsewhere write there too.
What counts is the event in which an attempt of ours has said it.
"""

from collections.abc import Iterable

from headrace.model.delegation import CHILD
from headrace.model.events import Json
from headrace.model.task import WORKING

REMOTE_TASK, REMOTE_CONTEXT = "remote_task", "remote_context"
"""Metadata keys of a task under which it says which task of the outside agent it stands for."""


def remote_of(told: Iterable[tuple[int, Json]]) -> tuple[str, str]:
    """Return ids of the task and the conversation elsewhere; empty: none is known.

    Clients' metadata stand in events of other states; from the outside agent the names are not
    taken (`without_names`).
    """
    found = ("", "")
    for _, event in told:
        update = event.get("statusUpdate", {})
        metadata = update.get("metadata") or {}
        at_work = update.get("status", {}).get("state") == WORKING and CHILD not in metadata
        if at_work and (task := metadata.get(REMOTE_TASK)):
            found = (str(task), str(metadata.get(REMOTE_CONTEXT, "")))
    return found


def without_names(metadata: Json) -> Json:
    """Return an outside agent's metadata without what it may say of agents beyond itself."""
    return {k: v for k, v in metadata.items() if k not in {REMOTE_TASK, REMOTE_CONTEXT}}
