"""Read a delegating task and its children from their logs."""

from headrace.log import last_entry, replay
from headrace.model.delegation import CHILD
from headrace.model.entry import Entry
from headrace.model.events import ATTEMPT, Json
from headrace.model.fold import TaskFold
from headrace.model.task import TaskKey
from tests.support.task_submitter import TIMEOUT, Task, TaskSubmitter
from tests.support.waiting import eventually


def child_reports(entries: list[Entry]) -> list[Json]:
    """Return what a parent's log says of its children, in order."""
    statuses = [e.get("statusUpdate", {}) for entry in entries for e in entry.events]
    return [metadata[CHILD] for s in statuses if CHILD in (metadata := s.get("metadata") or {})]


def children(entries: list[Entry]) -> dict[str, TaskKey]:
    """Return the children that a parent has asked, by their names."""
    return {
        one["name"]: TaskKey("default", one["agent"], one["task"])
        for one in child_reports(entries)
        if one["generation"] == 0 and "agent" in one
    }


def relayed(entries: list[Entry], child: str) -> list[int]:
    """Return the generations of a child that its parent's log has."""
    return [one["generation"] for one in child_reports(entries) if one["task"] == child]


async def log_of(submitter: TaskSubmitter, key: TaskKey) -> list[Entry]:
    """Return a whole log."""
    last = await last_entry(submitter.bus, key)
    head = 0 if last is None else last.sequence
    return [e async for batch in replay(submitter.bus, key, 0, head) for e in batch]


async def state_of(submitter: TaskSubmitter, key: TaskKey) -> str:
    """Return the state of a task; empty: there is none."""
    last = await last_entry(submitter.bus, key)
    return "" if last is None else last.stamp.state


async def ends(submitter: TaskSubmitter, key: TaskKey, timeout: float = TIMEOUT) -> str:
    """Return the task's state once it is over."""

    async def over() -> str | None:
        last = await last_entry(submitter.bus, key)
        return last.stamp.state if last is not None and last.ends_task else None

    return await eventually(over, timeout=timeout)


async def child_of(task: Task, timeout: float = TIMEOUT) -> TaskKey:
    """Return the one child of a task as soon as it has one."""

    async def asked() -> TaskKey | None:
        return next(iter(children(await task.entries()).values()), None)

    return await eventually(asked, timeout=timeout)


def attempts(entries: list[Entry]) -> list[int]:
    """Return the attempts that a log tells of."""
    metadata = [e.get("statusUpdate", {}).get("metadata") or {} for x in entries for e in x.events]
    return [one[ATTEMPT] for one in metadata if ATTEMPT in one]


def task_of(entries: list[Entry]) -> Json:
    """Return the Task that a log folds to."""
    fold = TaskFold()
    for entry in entries:
        fold.apply_entry(entry)
    return fold.task()


def answer(entries: list[Entry]) -> str:
    """Return the text of a task's artifacts."""
    artifacts = task_of(entries).get("artifacts", [])
    return "".join(p.get("text", "") for a in artifacts for p in a["parts"])
