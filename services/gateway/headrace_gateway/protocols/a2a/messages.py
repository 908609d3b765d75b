"""SendMessage and SendStreamingMessage: what is submitted, and what its sender gets."""

import asyncio
from collections.abc import Sequence

from a2a.utils.errors import UnsupportedOperationError

from headrace.model.change import RESERVED_PREFIX
from headrace.model.entry import Entry
from headrace.model.events import ACCEPTED_MODES, EXTENSIONS, START_AT, TASK_ALREADY_SENT, Json
from headrace.model.fold import TaskFold
from headrace.model.messages import TaskFound
from headrace.model.task import BARE_MESSAGE, INPUT_REQUIRED
from headrace_gateway.call import Call, keyed_request
from headrace_gateway.extensions import own
from headrace_gateway.feeds import FeedBlock
from headrace_gateway.outcome import map_errors, wait_for
from headrace_gateway.protocols.a2a.bare_messages import bare_answer
from headrace_gateway.protocols.a2a.parameters import SendMessageParams
from headrace_gateway.protocols.a2a.push_configs import RUN_ENDED, webhook_of
from headrace_gateway.refusals import AnswerLost
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import Messages, Renderer
from headrace_gateway.tasks.ids import query_of, task_key
from headrace_gateway.tasks.submission import AcceptedInput, Submission
from headrace_gateway.tasks.subscribe import OpenedStream, Snapshot
from headrace_gateway.tasks.terms import check_parts, terms

_TEXT = {"text"}


def read_submission(services: Services, call: Call, parameters: SendMessageParams) -> Submission:
    """Return the message with what its request says about it.

    Raises:
        ContentTypeNotSupportedError: the agent does not accept a part of it.
        PushNotificationNotSupportedError: it has a webhook, and the agent sends no notifications.
        Malformed: its idempotency key, its terms or its webhook are invalid.
        TaskUnknown: no task can have the id that it names.
    """
    # Most messages have nothing but texts of no stated type, which nearly all agents accept.
    if set().union(*parameters.message["parts"]) != _TEXT or not call.card.accepts_text:
        check_parts(parameters.message, call.card)
    keyed = None
    if call.idempotency_key is not None:
        keyed = keyed_request(call, parameters.fingerprint)
    webhook = None
    if parameters.push_config is not None:
        # Repeated requests must result in one webhook.
        name = {} if keyed is None else {"id": f"key-{keyed.name[:32]}"}
        webhook = webhook_of(services, call, name | parameters.push_config)
    metadata = input_metadata(call, parameters)
    if parameters.task is not None:
        task_key(services.settings, call.caller, call.agent, parameters.task)
    return Submission(
        call.caller,
        call.card.name,
        parameters.message,
        parameters.context,
        metadata,
        parameters.task,
        parameters.if_generation,
        keyed,
        webhook,
    )


def input_metadata(call: Call, parameters: SendMessageParams) -> Json:
    """Return the request's metadata, without the keys that are reserved for the fleet.

    Raises:
        Malformed: it requests terms that are not allowed.
    """
    metadata, requested = dict[str, object](), dict[str, object]()
    for key, value in (parameters.metadata or {}).items():
        if key.startswith(RESERVED_PREFIX):
            requested[key.removeprefix(RESERVED_PREFIX)] = value
        else:
            metadata[key] = value
    if call.extensions and (extensions := own(call.card) & set(call.extensions)):
        metadata[EXTENSIONS] = sorted(extensions)
    if parameters.accepted_output_modes:
        metadata[ACCEPTED_MODES] = parameters.accepted_output_modes
    if requested or call.caller.priority is not None or call.card.start_within is not None:
        where = f"metadata.{RESERVED_PREFIX}"
        metadata |= terms(call.caller, call.card, requested, where).metadata()
    if call.card.bare_message and _is_immediate(parameters, metadata):
        metadata[TASK_ALREADY_SENT] = True
    return metadata | call.marks if call.traceparent else metadata


def _is_immediate(parameters: SendMessageParams, metadata: Json | None) -> bool:
    """Return whether the response is the Task as it is: by request, or as its run begins later."""
    return parameters.return_immediately or START_AT in (metadata or {})


async def send_message(services: Services, call: Call, params: object) -> Json:
    """Accept the message and return a SendMessageResponse: a Task, or a bare Message.

    Unless the request requires an immediate return, or its run begins later, wait until the task
    ends or waits for its user.

    Raises:
        Malformed: the parameters do not fit the operation.
        ClientDisconnect, Unanswered: the client has disconnected, or the log cannot be read; the
            task continues.
        A2AError, HeadraceError: as `read_submission` and `Submissions.submit`.
    """
    parameters = SendMessageParams.read(params)
    submission = read_submission(services, call, parameters)
    is_immediate = _is_immediate(parameters, submission.metadata)
    async with await services.submissions.submit(submission) as accepted:
        with map_errors(call, accepted):
            if accepted.read is not None and accepted.read.logged is None:
                run = _RunEnd(accepted, is_immediate=is_immediate)
                return await _continued_task(services, call, accepted, run, parameters)
            folding = _FoldedRun(accepted, is_immediate=is_immediate)
            await wait_for(services, call, accepted, folding, folding.fold.generation)
            if (state := folding.fold.state) == INPUT_REQUIRED:
                accepted.feed.note_fold(folding.fold)
            is_message = state == BARE_MESSAGE and accepted.read is None
            if is_message and folding.newest is not None and not is_immediate:
                return {"message": folding.newest.events[-1]["message"]}
            return {"task": folding.fold.task(parameters.history_length)}


class _RunEnd(Renderer):
    """Renders nothing, and is over when the task has ended or waits for input."""

    def __init__(self, accepted: AcceptedInput, *, is_immediate: bool) -> None:
        """Wait until the run has ended or, if `is_immediate`, for the end of the feed."""
        self.newest: Entry | None = None
        self.is_immediate = is_immediate
        self._feed, self._least = accepted.feed, accepted.generation

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:  # noqa: ARG002 - renders nothing
        """Record the newest entry."""
        self.newest = blocks[-1].entry
        return ()

    def is_over(self, *, run_ended: bool) -> bool:  # noqa: ARG002 - AUTH_REQUIRED also counts
        """Return whether the run has ended, as of the newest known entry."""
        newest = self.newest
        if newest is None or newest.last_generation < max(self._least, self._feed.head):
            return False
        return self.is_immediate or newest.stamp.state in RUN_ENDED


class _FoldedRun(_RunEnd):
    """Also folds the task."""

    def __init__(self, accepted: AcceptedInput, *, is_immediate: bool) -> None:
        """Wait as `_RunEnd`; a task that was read from its log is folded from there on."""
        super().__init__(accepted, is_immediate=is_immediate)
        logged = None if accepted.read is None else accepted.read.logged
        self.fold = TaskFold() if logged is None else logged.fold

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:  # noqa: ARG002 - as above
        """Fold the entries."""
        for block in blocks:
            self.fold.apply_entry(block.entry)
        self.newest = blocks[-1].entry
        return ()


async def _continued_task(
    services: Services,
    call: Call,
    accepted: AcceptedInput,
    run: _RunEnd,
    parameters: SendMessageParams,
) -> Json:
    """Wait, and request the task from task state, as it takes long to read its earlier log."""
    if not run.is_immediate:
        await wait_for(services, call, accepted, run, accepted.generation - 1)
    query = query_of(call.caller, accepted.key, history_length=parameters.history_length)
    return {"task": (await services.state.get(query)).task}


def with_history(task: Json, length: int | None) -> Json:
    """Return `task` with its `length` latest history messages; None for all, 0 for no history."""
    if length is None or len(task.get("history", ())) <= length:
        return task
    rest = {key: value for key, value in task.items() if key != "history"}
    return rest | ({"history": task["history"][-length:]} if length else {})


def check_streaming(call: Call) -> None:
    """Check that the agent's card offers streams.

    Raises:
        UnsupportedOperationError: it does not.
    """
    if not call.card.streaming:
        raise UnsupportedOperationError(f"agent {call.agent} does not support streaming")


async def send_streaming(services: Services, call: Call, params: object) -> OpenedStream:
    """Accept the message and return the stream of the outcome.

    Raises:
        UnsupportedOperationError: the agent does not support streaming.
        Malformed: the parameters do not fit the operation.
        NothingFollows: it was sent before, and the client's cursor is at the end.
        A2AError, HeadraceError: as `read_submission` and `Submissions.submit`.
    """
    check_streaming(call)
    parameters = SendMessageParams.read(params)
    submission = read_submission(services, call, parameters)
    accepted = await services.submissions.submit(submission)
    is_new = accepted.read is None and not accepted.is_replay
    is_shown = accepted.held.feed.head and parameters.history_length != 0
    if is_new and is_shown and not call.card.bare_message:
        # A new task's log from its first event, which is here: nothing has to be read.
        return OpenedStream(accepted.held, 0, accepted.log, task_shown=True)
    async with accepted:
        with map_errors(call, accepted):
            if accepted.is_replay and call.cursor:
                return await services.task_streams.open(call.caller, accepted.key, call.cursor)
            if accepted.read is not None:
                return _continued(accepted, accepted.read.found, parameters.history_length)
            if call.card.bare_message and not _is_immediate(parameters, submission.metadata):
                message = await bare_answer(accepted.feed)
                if message is not None:
                    return OpenedStream(accepted.held.hand_over(), message - 1, accepted.log)
            if not accepted.feed.head:
                await _has_begun(services, accepted)
            return await _started(accepted, parameters.history_length)


def _continued(
    accepted: AcceptedInput, found: TaskFound, history_length: int | None
) -> OpenedStream:
    """Return a follow-up's stream, which starts with the Task as it was just before."""
    first = Snapshot(found.generation, {"task": with_history(found.task, history_length)})
    held = accepted.held.hand_over()
    return OpenedStream(held, found.generation, accepted.log, first, task_shown=True)


async def _started(accepted: AcceptedInput, history_length: int | None) -> OpenedStream:
    """Return a new task's stream: its log from generation 1, unless history is excluded."""
    if history_length != 0:
        return OpenedStream(accepted.held.hand_over(), 0, accepted.log, task_shown=True)
    (block, *_) = await accepted.feed.reader(0).read()
    task: Json = with_history(block.entry.events[0]["task"], 0)
    first = Snapshot(1, {"task": task})
    return OpenedStream(accepted.held.hand_over(), 1, accepted.log, first, task_shown=True)


async def _has_begun(services: Services, accepted: AcceptedInput) -> None:
    """Return when the first event has come, which names the task.

    Nothing would name it if the response had begun, and then ended early.

    Raises:
        AnswerLost: it has not come, as NATS does not answer.
    """
    try:
        async with asyncio.timeout(services.timing.first_event):
            await accepted.feed.reader(0).read()
    except TimeoutError:
        raise AnswerLost(accepted.key.task, accepted.context) from None
