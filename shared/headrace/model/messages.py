"""Bodies of bus messages other than events: runs, control, state requests, dead letters.

They are JSON. Each is validated once per request, never per token.
"""

import logging
from base64 import b64decode
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import ConfigDict, Field, ValidationError, field_validator

from headrace.model.described import Described
from headrace.model.errors import UndecodableMessage

_log = logging.getLogger(__name__)


class CoreMessage(Protocol):
    """What is read of a core NATS message: anybody may send one, and nobody keeps it."""

    subject: str
    data: bytes


class BusMessage(Described):
    """A message body. Unknown fields are ignored, so that versions can mix."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    def encode(self) -> bytes:
        """Return the JSON body, unset fields left out."""
        return self.model_dump_json(exclude_none=True).encode()

    @classmethod
    def decode(cls, subject: str, data: bytes) -> Self:
        """Parse a body.

        Raises:
            UndecodableMessage: It is not JSON of this shape; the reason names the field.
        """
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "body"
            raise UndecodableMessage(subject, f"{where}: {first['msg']}") from None

    @classmethod
    def decode_or_ignore(cls, msg: CoreMessage, what: str) -> Self | None:
        """Parse a core message; None, after a warning that names `what` it is: malformed."""
        try:
            return cls.decode(msg.subject, msg.data)
        except UndecodableMessage as error:
            _log.warning("ignored a malformed %s: %s", what, error)
            return None


class RunRequest(BusMessage):
    """A run request. Tenant, agent, task and run are in its subject."""

    log: str
    """Log id of the task. A request for another log is void."""
    context: str
    """The task's contextId."""
    owner: str
    """Owner, as a subject token."""
    traceparent: str | None = None
    """W3C trace context of the request."""
    version: str | None = None
    """The version of the agent that the task is pinned to. None: it is not pinned."""
    start_at: str | None = None
    """The time at which it is to be in the queue, RFC 3339. None: at once."""
    input: str | None = None
    """The input, as a line of the log, so that its first worker need not read the log. None: it
    must."""
    sequence: int | None = None
    """Stream sequence of `input`. Appends expect it, so a request that the log has passed is
    refused."""
    cleans_up: bool | None = None
    """The task has ended without its agent, and the run is only for the agent's clean-up. None: it
    is an ordinary run."""


class HolderReply(BusMessage):
    """A holder's answer on the task's control subject."""

    writer: str
    """The attempt's writer id."""
    worker: str
    """The worker's instance id."""
    run: int
    attempt: int
    accepted: bool = True
    """Whether the holder accepts the request."""
    ends_within: float | None = None
    """Seconds that the holder needs to end the run after a cancel, for its agent's clean-up and its
    children. None: not specified."""
    generation: int | None = None
    """Generation of the accepted message in the log."""
    refused: Literal["policy", "over", "too_large", "generation", "blocked", "new_run"] | None = (
        None
    )
    """Why a message was not accepted: ``policy``: the agent accepts none; ``over``: its run has
    ended; ``too_large``: it fits no entry; ``generation``: the task is at `generation`, not at the
    expected one; ``blocked``: the agent blocks its worker, so the sender queues the message and the
    holder continues after it; ``new_run``: the run began after `Control.read_up_to`, so an earlier
    run may have received the message, and the sender must read the log first."""


class Control(BusMessage):
    """A request to the holder of a task."""

    ask: Literal["who", "cancel", "input"]
    """`who`: identify the holder. `cancel`: end the run; CANCELED in the log confirms it. `input`:
    accept this message; the answer is sent when it is in the log."""
    input: str | None = None
    """For `input`: the message's name, which stays the same when it is sent again."""
    message: dict[str, Any] | None = None
    """For `input`: the user's A2A v1.0 Message."""
    metadata: dict[str, Any] | None = None
    """For `input`: the message's metadata."""
    if_generation: int | None = None
    """For `input`: accept it only directly after this generation."""
    read_up_to: int | None = None
    """For `input`: the generation up to which the sender knows that the log has no message of that
    name. The holder knows its own run's messages, so together they queue a message once. None: the
    message was never sent before."""


class GetTask(BusMessage):
    """Operation ``get``: one task as of now."""

    tenant: str
    owner: str
    any_owner: bool = False
    """The caller is an operator of the tenant; the task may have any owner."""
    task: str
    agent: str | None = None
    """If set, tasks of other agents are unknown."""
    history_length: int | None = Field(default=None, ge=0)
    """None: all; 0: omit; n: the n most recent messages."""


class TaskFound(BusMessage):
    """A task with the data that its reader needs to continue from here."""

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
    version: str | None = None
    """The version of the agent that the task is pinned to. None: it is not pinned."""


class ListTasks(BusMessage):
    """Operation ``list``: tasks, newest status first."""

    tenant: str
    owner: str
    any_owner: bool = False
    """The caller is an operator of the tenant; tasks of all owners match."""
    agents: list[str] = Field(default_factory=list)
    """Agents: tasks of any of them match. Empty: all."""
    context: str | None = None
    states: list[str] = Field(default_factory=list)
    """Task states: tasks in any of them match. Empty: all."""
    status_after: str | None = None
    """RFC 3339. Only tasks whose status is from this time or later."""
    oldest_first: bool = False
    """The oldest status comes first."""
    page_size: int = Field(default=50, ge=1, le=100)
    page_token: str = ""
    history_length: int | None = Field(default=None, ge=0)
    include_artifacts: bool = False


class ListedTask(BusMessage):
    """A task whose place in lists has changed."""

    tenant: str
    agent: str
    task: str
    owner: str
    """Owner, as a subject token; empty if it is not known any more."""
    context: str = ""
    """Empty for a task that is gone."""
    state: str | None = None
    """The task's state. None: lists don't contain it any more."""
    before: str | None = None
    """The state before; empty for a new task. None: unknown."""
    time: int = 0
    """Time of the status, microseconds since 1970."""


class ListChanges(BusMessage):
    """What a batch of an event stream changed in lists (subject ``changes``).

    A reader whose last message of the stream did not end at `after` has missed some. Without tasks,
    a message says that some may not have been published.
    """

    after: int
    """Stream sequence at which the previous message ended."""
    end: int
    """Stream sequence up to which the stream is applied."""
    tasks: list[ListedTask]


class RequestsTaken(BusMessage):
    """The requests that a gateway has served, sent to the other gateways (subject ``rates``)."""

    gateway: str
    taken: dict[str, int]
    """Requests since the last report: by tenant, and by ``tenant.owner``."""


class FindTasks(ListTasks):
    """Operation ``find``: rows of tasks, also of several agents."""

    text: str = ""
    """Only tasks whose first message, status or id contains this text, in any case."""
    page_size: int = Field(default=50, ge=1, le=200)


class TaskRow(BusMessage):
    """A task as one row of a list."""

    id: str
    agent: str
    owner: str
    """As a subject token."""
    context: str
    state: str
    time: str
    """When the state changed, RFC 3339."""
    title: str
    """Beginning of the first message of the user, in one line."""
    text: str
    """Beginning of the status' message, in one line."""
    question: dict[str, Any] | None = None
    """The status of a task that waits for its user, in full."""


class RowsFound(BusMessage):
    """One page of rows."""

    tasks: list[TaskRow]
    counts: dict[str, int]
    """Matching tasks by state, on all pages and whatever states the query names."""
    total_size: int
    """Matching tasks on all pages."""
    next_page_token: str
    """Empty on the last page."""
    searched_to: str = ""
    """RFC 3339. A search for a text has looked at tasks as far as this time; rows, counts and size
    are those of these tasks, and the next pages go on from there. Empty: it looked at all."""


class TasksFound(BusMessage):
    """One page of a list."""

    tasks: list[dict[str, Any]]
    next_page_token: str
    """Empty on the last page."""
    page_size: int
    total_size: int
    """Number of matching tasks on all pages."""


type UsageGroup = Literal["day", "owner", "agent", "root"]

USAGE_GROUPS: tuple[UsageGroup, ...] = ("day", "owner", "agent", "root")
"""What usage can be grouped by. ``root`` is the agent of the task that delegated first."""

MOST_USAGE_DAYS = 100
"""Maximum days of one request for usage."""


class GetUsage(BusMessage):
    """Operation ``usage``: what a tenant's runs have used."""

    tenant: str
    owner: str | None = None
    """Only this owner's. None: all owners'."""
    first: str
    """First day, YYYY-MM-DD in UTC."""
    last: str
    """Last day, YYYY-MM-DD in UTC; at most 99 days later."""
    by: list[UsageGroup]
    """What each row is of. Empty: one row."""


class UsageCounts(BusMessage):
    """A row of usage. Its groups are those that were requested."""

    day: str | None = None
    owner: str | None = None
    """``*``: all owners for whom no counter was left."""
    agent: str | None = None
    """The agent whose runs these are."""
    root: str | None = None
    """The agent of the first task, if the task was delegated; otherwise the same as `agent`."""
    input_tokens: int
    output_tokens: int
    tokens: int
    """The totals that agents reported, or else input and output."""
    cost: float
    """What agents reported, in their currency."""
    runs: int
    """Runs that have ended."""
    run_seconds: float
    """Seconds from their first attempts to their ends."""


class UsageFound(BusMessage):
    """Usage, a row for each group that has any."""

    rows: list[UsageCounts]


class CountOpenTasks(BusMessage):
    """Operation ``open``: how many tasks of an agent are not over, of all tenants."""

    agent: str


class OpenTasksCounted(BusMessage):
    """The number of an agent's open tasks."""

    versions: dict[str, int]
    """By the version that they are pinned to; empty: they are not pinned."""


class ListThreads(BusMessage):
    """Operation ``threads``: an owner's threads, the one that was changed last first."""

    tenant: str
    owner: str
    agents: list[str] | None = None
    """Only threads with a task of one of these agents. None: all."""
    context: str | None = None
    """Only the thread with this id."""
    words: str = ""
    """Only threads whose title or last message contains this text, in any case."""
    archived: bool | None = None
    """Only threads that are archived, or that are not. None: both."""
    page_size: int = Field(default=50, ge=1, le=100)
    page_token: str = ""


class ListedThread(BusMessage):
    """A thread: an owner's context. Times are RFC 3339 in UTC."""

    id: str
    """The context id."""
    agents: list[str]
    """The agents that the owner has begun tasks with, in alphabetical order."""
    title: str
    """The one that the owner has set, or the first words of its first message."""
    text: str
    """Beginning of the last message of the user or of an agent."""
    state: str
    """The state of the task whose run began or ended last."""
    waiting: bool
    """Whether that task waits for its user."""
    created: str
    changed: str
    """When a run last began or ended."""
    unread: bool
    """Whether a run has ended since the time up to which the owner has read."""
    archived: bool
    tasks: int
    """Number of tasks that the owner has begun."""


class ThreadsFound(BusMessage):
    """One page of a list of threads."""

    threads: list[ListedThread]
    next_page_token: str
    """Empty on the last page."""
    total_size: int
    """Number of matching threads on all pages."""


class StartTask(BusMessage):
    """Operation ``start``: an agent delegates to another one. Repetitions start nothing new."""

    tenant: str
    agent: str
    """The child's agent."""
    parent: str
    """The parent task. The child gets its owner and context."""
    parent_agent: str
    run: int = Field(ge=1)
    """The parent's run."""
    attempt: int = Field(ge=1)
    """The parent's attempt. An attempt that a later one has replaced is refused."""
    name: str = Field(min_length=1, max_length=512)
    """The child's name, unique per run and agent. Its task id is derived from it."""
    message: dict[str, Any]
    """An A2A v1.0 Message. Task state sets its ids and role."""
    into: str | None = None
    """A child of the parent that waits for input, which this message answers."""
    deadline: str | None = None
    """When the child is stopped, RFC 3339."""
    budget: int | None = None
    """Maximum number of tokens for the child."""
    priority: str = "normal"
    """Priority of the parent's run."""
    traceparent: str | None = None
    """W3C trace context of the parent's run."""


class ChildTask(BusMessage):
    """A child task, as a worker of its parent's agent names it to task state."""

    tenant: str
    agent: str
    """The child's agent."""
    task: str
    """The child's task id."""
    parent: str
    """The parent task's id."""
    parent_agent: str
    """The parent's agent. Only its workers may send this request."""


class CancelChild(ChildTask):
    """Operation ``cancel``: end the child. CANCELED in its log confirms it."""


class ChildInput(ChildTask):
    """Operation ``input``: send the child's holder a message, as `Control` does with ``input``."""

    input: str
    """The message's name, which stays the same when it is sent again."""
    message: dict[str, Any]
    """The user's A2A v1.0 Message."""
    asked_at: int
    """Generation of the child's question that the message answers."""


class OpenQueue(BusMessage):
    """Operation ``queue``: create the queue for these runs."""

    tenant: str
    agent: str
    priority: str = "normal"
    version: str = ""
    """The version of the agent that its tasks are pinned to, as a token. Empty: not pinned."""


class DropFile(BusMessage):
    """Operation ``drop``: delete a file of a task of the agent."""

    tenant: str
    agent: str
    task: str
    name: str
    """Name of the file within its task."""


class WaitForEnd(BusMessage):
    """Operation ``wait``: have a run woken when another task of its tenant and owner ends.

    If it has ended, the run is woken at once.
    """

    tenant: str
    agent: str
    task: str
    run: int
    """The run that waits; it is of the agent that the subject names."""
    awaited: str
    """Id of the other task."""


class WaitForEvent(BusMessage):
    """Operation ``listen``: have a run woken by the first event on a subject that matches.

    Events count from the first such request for the source on.
    """

    tenant: str
    agent: str
    task: str
    run: int
    """The run that waits; it is of the agent that the subject names."""
    source: str
    """What the event is for the run."""
    subject: str
    """NATS subject of the events, possibly with wildcards."""
    stream: str
    """JetStream stream that stores them."""
    match: dict[str, Any]
    """By path: a value, a list of values, or a condition, as in a trigger's filter."""


class WokenRun(BusMessage):
    """A run that something wakes; tenant and owner are those of what does."""

    agent: str
    task: str
    run: int
    source: str
    """What wakes it, for the run."""


class Done(BusMessage):
    """The requested operation is done, or will complete by itself."""

    generation: int | None = None
    """Generation of the message to a child, in its log. None: it was not accepted."""


class TaskStarted(BusMessage):
    """A child task that has started: its input is in its log."""

    task: str
    log: str
    context: str
    run: int
    """Generation of the child's input."""
    sequence: int
    """Stream sequence of the input."""
    input: str | None = None
    """The input, as a line of the log, if it has just started the log."""
    again: bool = False
    """Whether the child already existed."""


class Draining(BusMessage):
    """A worker's answer to the request to drain: it starts no more runs."""

    runs: int
    """Active runs; the worker ends after them."""


type LogLevel = Literal["debug", "info", "warning", "error", "configured"]
"""``configured``: that of the process's settings."""


class ProcessQuery(BusMessage):
    """A question of an operator to the processes of a service: what they are."""

    process: str | None = None
    """The only process that is asked, by its id. None: every one."""
    log_level: LogLevel | None = None
    """The level at which it logs from now on, until it ends. None: as before."""


class ProcessFound(BusMessage):
    """A process's answer: what it is."""

    service: str
    """``gateway``, ``task-state``, ``triggers`` or ``worker``."""
    process: str
    """Its id; of a worker the one in the directory."""
    release: str
    """Its version of Headrace."""
    reads: list[str]
    """The versions of the bus contract that it reads."""
    writes: str
    """The version of the bus contract that it writes."""
    log_level: str
    """The level at which it logs now."""


class HoldsQuery(BusMessage):
    """A request of a worker's watcher for the runs that it holds."""

    after: int
    """The `number` of the worker's last answer; 0 before the first one. The watcher can give back
    all holds of that answer and those before it, so the worker renews these less often."""


class Holds(BusMessage):
    """A worker's answer: what has changed in the runs it holds. It does not list brief ones."""

    number: int
    """The number of this answer, which the next question states."""
    taken: dict[int, str] = Field(default_factory=dict)
    """New holds: the number of the change that added each, and the reply subject of its run
    request, on which the run can be acknowledged."""
    tasks: dict[int, str] = Field(default_factory=dict)
    """Control subjects of those of `taken` whose tasks the worker holds, by the same numbers. Such
    a subject answers who holds the task."""
    released: list[int] = Field(default_factory=list)
    """Holds that have ended, by the numbers under which they were added."""
    whole: bool = False
    """Whether `taken` begins with the oldest hold: earlier answers no longer apply."""


class Refusal(BusMessage):
    """The error answer of any operation, recognized by its `code`."""

    code: Literal["task_unknown", "state_unavailable", "bad_request", "start_refused"]
    message: str
    why: (
        Literal[
            "agent_unknown", "too_deep", "repeated", "run_over", "not_waiting", "busy", "no_leader"
        ]
        | None
    ) = None
    """For `start_refused`: the rule. For `state_unavailable`: ``no_leader`` if the log's leader did
    not answer, as during an election; the request can be repeated."""
    is_late: bool = False
    """For `state_unavailable`: the view had not caught up, or the answer was not ready, in time, as
    after an election; the request can be repeated for a while."""

    @property
    def is_temporary(self) -> bool:
        """Whether the request can be repeated for a while.

        It waited for an election, or for the view, whose own consumer may wait for one.
        """
        return self.why == "no_leader" or self.is_late


class DeadLetter(BusMessage):
    """A message that was given up, kept with the reason for operators."""

    reason: str
    subject: str
    """Subject of the original."""
    task: str | None = None
    stream: str | None = None
    """The users' stream that stored the original event."""
    sequence: int | None = None
    """Stream sequence of the original, if it was stored."""
    headers: dict[str, str] = Field(default_factory=dict)
    headers_left_out: int | None = None
    """Number of the original's headers that are not kept, as the letter would be too large."""
    body: str = ""
    """The original's body, base64; its beginning if the letter would be too large."""
    size: int | None = None
    """Bytes of the original's body, if only its beginning is kept."""
    sha256: str | None = None
    """SHA-256 of the original's body in hexadecimal, likewise."""
    trigger: str | None = None
    """The trigger or schedule that could make no task of the original."""
    agent: str | None = None
    """Its agent, which the letter's subject then does not name."""
    at: Annotated[str, Field(description="RFC 3339")]

    @field_validator("body")
    @classmethod
    def _is_base64(cls, body: str) -> str:
        try:
            b64decode(body)
        except ValueError:
            raise ValueError("must be base64") from None
        return body
