"""Submission of a run: as a new task, as the answer to a waiting task, or as a repeated request.

A run is accepted once per thread and id, however often it is sent and to whichever gateway:
clients, proxies and browsers repeat a request whose answer they have not received.
"""

from dataclasses import dataclass

from headrace.log import last_entry
from headrace.model.errors import TaskUnknown
from headrace.model.events import INTERRUPTS, PENDING_TOOL_CALLS, Json
from headrace.model.run_ids import own_id
from headrace_gateway.call import Call
from headrace_gateway.context_tasks import ContextTasks
from headrace_gateway.protocols.agui.call_names import OpenCalls
from headrace_gateway.protocols.agui.errors import ResumeMismatch, RunIdReused, RunUnknown
from headrace_gateway.protocols.agui.run_input import RunInput
from headrace_gateway.protocols.agui.threads import RunThread, WaitingRuns
from headrace_gateway.refusals import KeyReused
from headrace_gateway.services import Services
from headrace_gateway.tasks.idempotency import KeyedRequest
from headrace_gateway.tasks.ids import task_key
from headrace_gateway.tasks.submission import AcceptedInput, Submission
from headrace_gateway.tasks.terms import check_parts, terms


async def submit(services: Services, call: Call, run_input: RunInput) -> AcceptedInput:
    """Accept the run that `run_input` describes, or find it accepted.

    A run that resumes an interrupt or answers pending tool calls continues the waiting task.

    Raises:
        RunIdReused: the thread has a different run with that id.
        RunUnknown: the run was accepted before and is no longer stored.
        ResumeMismatch: the interrupts that it resumes are not open.
        ThreadBusy: the agent is running in the thread and accepts no other run until it ends.
        A2AError, HeadraceError: as `check_parts` and `Submissions.submit`.
    """
    _check_taken(call, run_input)
    request = KeyedRequest(call.caller, call.agent, run_input.key, run_input.fingerprint())
    try:
        return await _submit(services, call, run_input, request)
    except KeyReused as reused:
        rule = "each run needs a new id; only an identical request may repeat one"
        raise RunIdReused(
            f"runId: {run_input.run} is already a run of this thread; {rule}"
        ) from reused
    except TaskUnknown as unknown:
        raise RunUnknown(f"run {run_input.run} is past its retention period") from unknown


async def _submit(
    services: Services, call: Call, run_input: RunInput, request: KeyedRequest
) -> AcceptedInput:
    submissions = services.submissions
    try:
        task = await answered(services, call, run_input)
    except ResumeMismatch as mismatch:
        # The interrupts may be closed because this very run has already resumed them.
        if (replay := await submissions.replay(request)) is not None:
            return replay
        run_input, task = await _gone_on(services, call, run_input, mismatch), None
    metadata = run_input.metadata | call.marks
    where = "forwardedProps.headrace."
    metadata |= terms(call.caller, call.card, run_input.wishes, where).metadata()
    message, continued = run_input.message, None
    if task is not None:
        message, continued = task.with_results(run_input), task.task
    submission = Submission(
        call.caller,
        call.card.name,
        message,
        run_input.thread,
        metadata,
        continued,
        keyed=request,
        turns=None if task else ContextTasks(services, call, run_input.thread),
    )
    return await submissions.submit(submission)


async def _gone_on(
    services: Services, call: Call, run_input: RunInput, mismatch: ResumeMismatch
) -> RunInput:
    """Return the run without its resume, if it cancels what is closed and has a new message.

    A client that still shows an interrupt, such as one whose answer's run failed, has no other way
    to go on: the official one sends nothing in a thread that does not name its open interrupts.

    Raises:
        ResumeMismatch: `mismatch`, for any other run.
        ContentTypeNotSupportedError: the agent does not accept a part of the message.
        StateUnavailable, BusUnavailable: try again.
    """
    new = run_input.without_cancels
    if new is None or mismatch.is_open:
        raise mismatch
    runs = await RunThread(services, call, run_input.thread).runs()
    others = [found.run for found in runs if found.run.id != run_input.run]
    said = {message["id"] for other in others for message in other.messages}
    if new.message["messageId"] in said:
        raise mismatch
    _check_taken(call, new)
    return new


def _check_taken(call: Call, run_input: RunInput) -> None:
    """Check that the agent accepts the parts of the message; answers to its interrupts always pass.

    Raises:
        ContentTypeNotSupportedError: it does not accept a part.
    """
    if run_input.resumes:
        return
    check_parts(run_input.message, call.card)


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """A task that waits for input."""

    task: str
    interrupts: frozenset[str]
    """The agent's ids of its open interrupts."""
    pending: frozenset[str]
    """The agent's ids of the tool calls that the client must carry out."""
    calls: OpenCalls
    """Its calls without a result, by the ids that clients have received."""

    def is_resumed_by(self, interrupts: frozenset[str]) -> bool:
        """Return whether `interrupts`, as a client names them, are all of the open ones."""
        named = frozenset(map(own_id, interrupts))
        return self.interrupts == named and all(map(self._is_current, interrupts))

    def is_answered_by(self, call: str) -> bool:
        """Return whether `call`, as a client names it, is one of the pending calls."""
        return own_id(call) in self.pending and self._is_current(call)

    def with_results(self, run_input: RunInput) -> Json:
        """Return the message of `run_input`, with results of the pending calls if it resumes."""
        message = run_input.message
        if not run_input.resumes:
            return message
        results = run_input.results.items()
        answers = [part for call, part in results if self.is_answered_by(call)]
        return {**message, "parts": [*answers, *message["parts"]]}

    def _is_current(self, given: str) -> bool:
        """Return whether the id is not that of an earlier call for which the agent had the same."""
        own = own_id(given)
        return given == own or given in self.calls.get(own, ())


async def answered(services: Services, call: Call, run_input: RunInput) -> WaitingTask | None:
    """Return the task that `run_input` continues; None if it starts a new one.

    Raises:
        ResumeMismatch: the interrupts are not open, or not all open ones are answered.
        StateUnavailable, BusUnavailable: try again.
    """
    if not run_input.resumes and not run_input.results:
        return None
    waiting = await _waiting(services, call, run_input.thread)
    if not run_input.resumes:
        results = run_input.results
        found = next((one for one in waiting if any(map(one.is_answered_by, results))), None)
        if found is None or not found.interrupts:
            return found
        # To go on without answers would decide for the user.
        waiting = [found]
    for one in waiting:
        if one.is_resumed_by(run_input.resumes):
            return one
    is_open = sorted({name for one in waiting for name in one.interrupts})
    # Results alone name no interrupt, but are refused for one that is open.
    named = {own_id(one) for one in run_input.resumes} or set(is_open)
    raise ResumeMismatch(is_open, is_open=not named.isdisjoint(is_open))


async def _waiting(services: Services, call: Call, thread: str) -> list[WaitingTask]:
    found: list[WaitingTask] = []
    async for one in RunThread(services, call, thread).waiting():
        key = task_key(services.settings, call.caller, call.agent, one.task)
        last = await last_entry(services.bus, key)
        if last is None or not one.runs:
            continue
        update = last.events[-1].get("statusUpdate") or {}
        found.append(_read(one, update.get("metadata") or {}, last.last_generation))
    return found


def _read(found: WaitingRuns, metadata: Json, generation: int) -> WaitingTask:
    task = found.task
    pending = metadata.get(PENDING_TOOL_CALLS) or ()
    names = [interrupt["id"] for interrupt in metadata.get(INTERRUPTS) or ()]
    if not names and not pending:
        names = [f"{found.runs[-1].run.id}.{generation}"]
    return WaitingTask(task, frozenset(names), frozenset(pending), found.calls)
