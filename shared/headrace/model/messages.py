"""What travels on the bus besides events: runs, control, questions to task state, dead letters.

Bodies are JSON; each model is validated once per request, never per token.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.model.errors import UndecodableMessage


class BusMessage(BaseModel):
    """A body on the bus: camelCase nowhere, unknown fields ignored so that versions can mix."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True, frozen=True)

    def encode(self) -> bytes:
        """Return the JSON body, unset fields left out."""
        return self.model_dump_json(exclude_none=True).encode()

    @classmethod
    def decode(cls, subject: str, data: bytes) -> Self:
        """Read a body.

        Raises:
            UndecodableMessage: it is not JSON of this shape; the reason names the field.
        """
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "body"
            raise UndecodableMessage(subject, f"{where}: {first['msg']}") from None


class RunRequest(BusMessage):
    """The message that asks workers to do a run; tenant, agent, task and run are its subject's."""

    log: str
    """Log id of the task: a request for another log is void."""
    context: str
    """The task's contextId."""
    owner: str
    """Owner, as a subject token."""
    traceparent: str | None = None
    """W3C trace context of the request."""
    input: str | None = None
    """The input, a line of the log: its first worker need not read it there. None: it must."""
    sequence: int | None = None
    """Beside `input`: its stream sequence. What is appended expects it, so that a request which the
    log has left behind is refused there."""


class Holding(BusMessage):
    """A holder's answer on the task's control subject."""

    writer: str
    """The attempt's writer id."""
    worker: str
    """The worker's instance id."""
    run: int
    attempt: int
    accepted: bool = True
    """Whether what was asked will be attended to."""
    ends_within: float | None = None
    """Seconds that the holder may take to end the run once it is asked to cancel: its agent cleans
    up, and its children are ended. None: it does not say."""
    generation: int | None = None
    """Of the accepted message in the log."""
    refused: Literal["policy", "over", "too_large", "generation", "blocked"] | None = None
    """Why a message was not: the agent takes none, its run has ended, it fits no entry, the task is
    at `generation` and not where the message wants it, or the agent blocks its worker: then whoever
    asked queues the message, and the holder goes on behind it."""


class Control(BusMessage):
    """A question to the holder of a task."""

    ask: Literal["who", "cancel", "input"]
    """`who`: are you there? `cancel`: end the run; CANCELED in the log confirms it. `input`: take
    this message in; the answer comes when it is in the log."""
    input: str | None = None
    """For `input`: the name that the message is known by, however often it is handed in."""
    message: dict[str, Any] | None = None
    """For `input`: the user's A2A v1.0 Message."""
    metadata: dict[str, Any] | None = None
    """For `input`: what came with the message."""
    if_generation: int | None = None
    """For `input`: take it in only right behind this generation."""


class GetTask(BusMessage):
    """Operation ``get``: one task as of now."""

    tenant: str
    owner: str
    any_owner: bool = False
    """An operator of the tenant asks: it may be any owner's."""
    task: str
    agent: str | None = None
    """If given, a task of another agent is unknown."""
    history_length: int | None = Field(default=None, ge=0)
    """None: all; 0: omit; n: the n most recent messages."""


class TaskFound(BusMessage):
    """A task with what its reader needs to go on from here."""

    task: dict[str, Any]
    """A2A v1.0 Task in ProtoJSON; its metadata carries ``headrace.generation``."""
    agent: str
    log: str
    generation: int
    """Generation of the last event that `task` reflects."""
    sequence: int
    """Stream sequence of the entry with that event."""
    state: str
    """The task's state (an `entry.Stamp.state`)."""
    traceparent: str | None = None
    """W3C trace context of the newest input that came with one."""


class ListTasks(BusMessage):
    """Operation ``list``: tasks, newest status first."""

    tenant: str
    owner: str
    any_owner: bool = False
    """An operator of the tenant asks: all owners' tasks."""
    agent: str | None = None
    context: str | None = None
    status: str | None = None
    """A task state, or None for all."""
    status_after: str | None = None
    """RFC 3339; only tasks whose status is of then or later."""
    page_size: int = Field(default=50, ge=1, le=100)
    page_token: str = ""
    history_length: int | None = Field(default=None, ge=0)
    include_artifacts: bool = False


class RequestsTaken(BusMessage):
    """What a gateway tells the others of the requests that it has served (subject ``rates``)."""

    gateway: str
    taken: dict[str, int]
    """Requests since it told last: by tenant, and by tenant and owner with a dot between them."""


class TasksFound(BusMessage):
    """One page of a list."""

    tasks: list[dict[str, Any]]
    next_page_token: str
    """Empty on the last page."""
    page_size: int
    total_size: int
    """Tasks that match, on all pages."""


class StartTask(BusMessage):
    """Operation ``start``: an agent at work asks another one. Asked again it starts nothing new."""

    tenant: str
    agent: str
    """Who is asked."""
    parent: str
    """The asking task; its owner and its context are the child's."""
    parent_agent: str
    run: int = Field(ge=1)
    """The parent's run that asks."""
    attempt: int = Field(ge=1)
    """The parent's attempt that asks; one that a later attempt has replaced is refused."""
    name: str = Field(min_length=1, max_length=512)
    """The child's, one per run and agent: its task id is derived from it."""
    message: dict[str, Any]
    """An A2A v1.0 Message; ids and role are set here."""
    into: str | None = None
    """A child of the parent's that waits for input: the message answers it."""
    deadline: str | None = None
    """RFC 3339; the child is stopped then."""
    budget: int | None = None
    """Tokens that the child may use."""
    priority: str = "normal"
    """Of the parent's run."""
    traceparent: str | None = None
    """W3C trace context of the parent's run."""


class ChildTask(BusMessage):
    """A child, named to task state by a worker of its parent's agent."""

    tenant: str
    agent: str
    """The child's."""
    task: str
    """The child's."""
    parent: str
    """The task that asked for it."""
    parent_agent: str
    """The parent's, whose workers alone may ask."""


class CancelChild(ChildTask):
    """Operation ``cancel``: the child is to end; CANCELED in its log confirms it."""


class TellChild(ChildTask):
    """Operation ``tell``: hand the child's holder a message, as `Control` does with ``input``."""

    input: str
    """The name that the message is known by, however often it is handed in."""
    message: dict[str, Any]
    """The user's A2A v1.0 Message."""


class OpenQueue(BusMessage):
    """Operation ``queue``: there is to be a queue for these runs."""

    tenant: str
    agent: str
    priority: str = "normal"


class DropFile(BusMessage):
    """Operation ``drop``: forget a file of a task of the agent's."""

    tenant: str
    agent: str
    task: str
    name: str
    """The file's, within its task."""


class Done(BusMessage):
    """What was asked for is done, or goes on by itself."""

    generation: int | None = None
    """Of the message that a child was told, in its log; None: it was told none."""


class TaskStarted(BusMessage):
    """A child is in its log."""

    task: str
    log: str
    context: str
    run: int
    """Generation of the child's input."""
    sequence: int
    """Stream sequence of the input."""
    input: str | None = None
    """The input, a line of the log, if it has just begun the log."""
    again: bool = False
    """Whether it had been asked before: this is what is there."""


class Refusal(BusMessage):
    """Any operation's answer when it can't be served; told apart by its `code`."""

    code: Literal["task_unknown", "state_unavailable", "bad_request", "start_refused"]
    message: str
    why: (
        Literal[
            "agent_unknown", "too_deep", "repeated", "run_over", "not_waiting", "busy", "no_leader"
        ]
        | None
    ) = None
    """For `start_refused`: the rule that forbids it; for `state_unavailable`, ``no_leader``: the
    log's leader did not answer, as during an election, so the question can be asked again."""
    is_late: bool = False
    """For `state_unavailable`: the view had not caught up in time, so the question can be asked
    again for a while: after an election it soon has."""


class DeadLetter(BusMessage):
    """Something given up, kept with its reason until an operator looks."""

    reason: str
    subject: str
    """Where the original was."""
    task: str | None = None
    sequence: int | None = None
    """Stream sequence of the original, if it was stored."""
    headers: dict[str, str] = Field(default_factory=dict)
    body: str = ""
    """The original's body, base64."""
    at: Annotated[str, Field(description="RFC 3339")]
