"""Tasks of a thread that wait for its user: what each asks, and which run's input answers it."""

from dataclasses import dataclass

from headrace.log import last_entry
from headrace.model.events import INTERRUPTS, PENDING_TOOL_CALLS, Json
from headrace_gateway.call import Call
from headrace_gateway.protocols.agui.errors import ResumeMismatch
from headrace_gateway.protocols.agui.run_input import RunInput
from headrace_gateway.protocols.agui.threads import Thread
from headrace_gateway.services import Services
from headrace_gateway.tasks.ids import task_key


@dataclass(frozen=True, slots=True)
class Waiting:
    """A task that waits for input."""

    task: str
    interrupts: frozenset[str]
    """Ids of what it asks."""
    pending: frozenset[str]
    """Ids of the tool calls that the client is to carry out."""


async def answered(services: Services, call: Call, asked: RunInput) -> str | None:
    """Return the id of the task that `asked` goes on with; None: it begins one.

    Raises:
        ResumeMismatch: it resumes what does not wait, or not all of it.
        StateUnavailable, BusUnavailable: try again.
    """
    if not asked.resumes and not asked.results:
        return None
    waiting = await _waiting(services, call, asked.thread)
    if not asked.resumes:
        return next((one.task for one in waiting if one.pending & asked.results), None)
    for one in waiting:
        if one.interrupts == asked.resumes:
            return one.task
    is_open = sorted({name for one in waiting for name in one.interrupts})
    raise ResumeMismatch(f"resume: must answer all interrupts of one task; open are {is_open}")


async def _waiting(services: Services, call: Call, thread: str) -> list[Waiting]:
    found: list[Waiting] = []
    async for task, runs in Thread(services, call, thread).waiting():
        key = task_key(services.settings, call.caller, call.agent, task)
        last = await last_entry(services.bus, key)
        if last is None or not runs:
            continue
        update = last.events[-1].get("statusUpdate") or {}
        default = f"{runs[-1].run.id}.{last.last_generation}"
        found.append(_read(task, update.get("metadata") or {}, default))
    return found


def _read(task: str, metadata: Json, default: str) -> Waiting:
    if pending := metadata.get(PENDING_TOOL_CALLS):
        return Waiting(task, frozenset(), frozenset(pending))
    interrupts = metadata.get(INTERRUPTS)
    names = [interrupt["id"] for interrupt in interrupts] if interrupts else [default]
    return Waiting(task, frozenset(names), frozenset())
