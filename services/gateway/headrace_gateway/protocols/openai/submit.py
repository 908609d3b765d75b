"""Submission of a request: as a new task, or as the answer to a task that waits for it."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.log import last_entry
from headrace.model import events, parts
from headrace.model.errors import TaskUnknown
from headrace.model.events import INTERRUPTS, PENDING_TOOL_CALLS, Json
from headrace.model.messages import ListTasks, TaskFound
from headrace.model.task import INPUT_REQUIRED, TaskKey
from headrace_gateway.call import Call, keyed_request
from headrace_gateway.context_tasks import ContextTasks
from headrace_gateway.protocols.openai.chat import text_of_completion
from headrace_gateway.protocols.openai.conversation import Conversation, answer_parts
from headrace_gateway.protocols.openai.errors import RequestInvalid, ResponseUnknown
from headrace_gateway.protocols.openai.ids import RunPlace
from headrace_gateway.protocols.openai.request import CHAT, AgentRequest
from headrace_gateway.protocols.openai.response_output import ResponseOutput
from headrace_gateway.services import Services
from headrace_gateway.tasks.ids import mint_message_id, query_of, task_key
from headrace_gateway.tasks.submission import AcceptedInput, Submission
from headrace_gateway.tasks.terms import check_parts, terms

_MOST_WAITING = 20
"""Tasks that are searched for the one that waits for the request: the newest."""


@dataclass(frozen=True, slots=True)
class _AskingTask:
    """A task that waits for its user."""

    task: str
    context: str
    run: int
    """The run that has asked."""
    calls: list[str]
    """The agent's ids of the calls that the client carries out."""
    interrupts: list[Json]


@dataclass(frozen=True, slots=True)
class _SubmissionPlace:
    """Where a request goes on."""

    context: str | None = None
    task: _AskingTask | None = None
    behind: Sequence[str] = ()
    """The tasks at work after which the new one begins."""


async def submit(services: Services, call: Call, request: AgentRequest) -> AcceptedInput:
    """Accept the request's input, or find it accepted under its Idempotency-Key.

    Raises:
        ResponseUnknown: the caller has no such previous response.
        A2AError, HeadraceError: as `check_parts` and `Submissions.submit`.
    """
    keyed = keyed_request(call, request.fingerprint)
    if keyed is not None and (earlier := await services.submissions.replay(keyed)) is not None:
        return earlier  # What it began may be at work or over: neither is in its way.
    place = await _place(services, call, request)
    message_id = mint_message_id()
    content, metadata = _input(request, place, message_id)
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": content}
    if place.task is None:
        check_parts(message, call.card)
    metadata |= call.marks | terms(call.caller, call.card, {}, "").metadata()
    if place.behind:
        metadata[events.WAIT_FOR] = list(place.behind)
    submission = Submission(
        call.caller,
        call.agent,
        message,
        place.context,
        metadata,
        None if place.task is None else place.task.task,
        keyed=keyed,
    )
    return await services.submissions.submit(submission)


def _input(request: AgentRequest, place: _SubmissionPlace, message: str) -> tuple[list[Json], Json]:
    """Return the parts of the input, the message with that id, and its metadata."""
    conversation = request.conversation
    if place.task is not None:
        return _answer(request, place.task), request.context_metadata()
    if place.context is not None and not conversation.has_answers:
        _check_says_something(request)
        return conversation.said(), request.context_metadata()
    content, messages = conversation.input(message)
    return content, request.metadata(messages)


def _answer(request: AgentRequest, waiting: _AskingTask) -> list[Json]:
    """Return the parts that answer the task: results, decisions, and what the user says."""
    conversation, place = request.conversation, RunPlace("", waiting.task, waiting.run)
    given = {one["toolCallId"] for one in conversation.results}
    named = {name: own for name in given if (own := place.own_call(name, waiting.calls))}
    if named and (left := [own for own in waiting.calls if own not in named.values()]):
        # As OpenAI's own API: the agent would go on, and the other result would find it gone.
        raise RequestInvalid(request.said_in, f"no output for the tool call {place.call(left[0])}")
    content = answer_parts(conversation, named)
    content += _decisions(conversation, waiting, place)
    if conversation.user is not None or not content:
        _check_says_something(request)
        content += conversation.said()
    return content


def _check_says_something(request: AgentRequest) -> None:
    """Refuse results and decisions that nobody waits for: the agent would read an empty message.

    Raises:
        RequestInvalid: there is nothing else.
    """
    conversation = request.conversation
    if conversation.user is None and (named := conversation.answered):
        rule = "the agent does not wait for it, or it has been answered"
        raise RequestInvalid(request.said_in, f"no call or approval {named[-1]}: {rule}")


def _decisions(conversation: Conversation, waiting: _AskingTask, place: RunPlace) -> list[Json]:
    interrupts = [str(one.get("id")) for one in waiting.interrupts]
    found: list[Json] = []
    for decision in conversation.approvals:
        own = place.own_call(decision["id"], interrupts)
        reason = {"reason": decision["reason"]} if decision["reason"] else {}
        metadata = {parts.INTERRUPT_ID: own, parts.RESUME_STATUS: "resolved"}
        if own is not None:
            data = {"approved": decision["approve"], **reason}
            found.append({"data": data, "metadata": metadata})
    return found


async def _place(services: Services, call: Call, request: AgentRequest) -> _SubmissionPlace:
    """Return where the request goes on.

    Raises:
        ResponseUnknown: the caller has no such previous response.
        ThreadBusy: the agent is at work in the conversation, and accepts nothing else meanwhile.
        StateUnavailable, BusUnavailable: try again.
    """
    if (waiting := await _asked_by_calls(services, call, request)) is not None:
        return _SubmissionPlace(task=waiting)
    if request.previous is not None:
        return await _after(services, call, request.previous)
    if request.context is None:
        return _SubmissionPlace(task=await _asked_in_chat(services, call, request))
    tasks = ContextTasks(services, call, request.context)
    async for task in tasks.newest_first(states=[INPUT_REQUIRED]):
        if (waiting := await _waiting(services, call, task["id"])) is not None:
            return _SubmissionPlace(task=waiting)
    return await _behind(tasks, request.context)


async def _asked_by_calls(
    services: Services, call: Call, request: AgentRequest
) -> _AskingTask | None:
    """Return the task whose calls or approvals the request answers."""
    places = (RunPlace.of_call(name, call.agent) for name in request.conversation.answered)
    tasks = dict.fromkeys(place.task for place in places if place is not None)
    # A client that sends its whole conversation names its earlier calls, too.
    for task in list(tasks)[-_MOST_WAITING:]:
        if (found := await _waiting(services, call, task)) is not None:
            return found
    return None


async def _asked_in_chat(
    services: Services, call: Call, request: AgentRequest
) -> _AskingTask | None:
    """Return the task that asked in the chat, if the user's message is a reply to it.

    A chat completion names neither task nor conversation. Its messages are those of the request
    that was answered with the question, followed by the question and the reply.
    """
    conversation = request.conversation
    if conversation.question is None or not request.is_chat:
        return None
    caller = call.caller
    query = ListTasks(
        tenant=caller.tenant,
        owner=caller.owner,
        agents=[call.agent],
        states=[INPUT_REQUIRED],
        page_size=_MOST_WAITING,
        history_length=0,
    )
    for task in (await services.state.list(query)).tasks:
        waiting = await _waiting(services, call, task["id"])
        if waiting is not None and await _has_asked(services, call, waiting, conversation):
            return waiting
    return None


async def _has_asked(
    services: Services, call: Call, waiting: _AskingTask, conversation: Conversation
) -> bool:
    """Return whether the conversation is that of the task, up to its question."""
    key = task_key(services.settings, call.caller, call.agent, waiting.task)
    output = ResponseOutput(RunPlace(call.agent, waiting.task, waiting.run))
    after = waiting.run - 1
    async with await services.task_streams.open_log(call.caller, key, after) as opened:
        reader = opened.feed.reader(after)
        while not output.over and (blocks := await reader.read_now()):
            for block in blocks:
                output.read(block.entry)
    sent = output.sent.get("forwardedProps") or {}
    is_same = sent.get(CHAT) == conversation.question
    return is_same and text_of_completion(output).strip() == conversation.last_answer.strip()


async def _after(services: Services, call: Call, previous: RunPlace) -> _SubmissionPlace:
    try:
        found = await _task(services, call, previous.agent, previous.task)
    except TaskUnknown:
        raise ResponseUnknown(previous.response) from None
    if found.state == INPUT_REQUIRED and previous.agent == call.agent:
        waiting = await _waiting(services, call, previous.task)
        if waiting is not None:
            return _SubmissionPlace(task=waiting)
    context: str = found.task["contextId"]
    return await _behind(ContextTasks(services, call, context), context)


async def _behind(tasks: ContextTasks, context: str) -> _SubmissionPlace:
    """Return the place of a new task in the context, behind those that it must wait for."""
    busy = await tasks.at_work()
    return _SubmissionPlace(context, behind=await tasks.make_way(busy) if busy else [])


async def _task(services: Services, call: Call, agent: str, task: str) -> TaskFound:
    key = task_key(services.settings, call.caller, agent, task)
    return await services.state.get(query_of(call.caller, key, history_length=0))


async def _waiting(services: Services, call: Call, task: str) -> _AskingTask | None:
    """Return the caller's task if it waits for its user."""
    try:
        found = await _task(services, call, call.agent, task)
    except TaskUnknown:
        return None
    if found.state != INPUT_REQUIRED:
        return None
    last = await last_entry(services.bus, TaskKey(call.caller.tenant, found.agent, task))
    if last is None or last.stamp.state != INPUT_REQUIRED:
        return None
    metadata = (last.events[-1].get("statusUpdate") or {}).get("metadata") or {}
    calls, interrupts = metadata.get(PENDING_TOOL_CALLS), metadata.get(INTERRUPTS)
    context = found.task["contextId"]
    return _AskingTask(task, context, last.stamp.run, calls or [], interrupts or [])
