"""The subjects of the bus contract (DESIGN, "The bus contract"), and the names in them.

A subject token contains only ``[A-Za-z0-9_-]``. External names, such as a claim in a token, may
contain anything, so they are encoded reversibly: every other byte, and ``_`` itself, becomes ``_``
and its two hex digits.
"""

import re
from dataclasses import dataclass

from headrace.model.errors import InvalidName, UndecodableMessage
from headrace.model.task import SHARDS_PER_STREAM, THREAD_LENGTH, TaskKey, check_task_id

MAX_TOKEN = 200
"""Maximum length of a token in characters. Subjects of six tokens stay far below NATS's limit."""

MAX_VERSION = 60
"""Maximum length of a pinned version's token; a consumer's name has at most 255 characters."""

LONGEST_CONTEXT = 256
"""Maximum length in characters of a context id and of AG-UI's thread and run ids, which every event
repeats."""

LONGEST_SUBJECT = 255
"""Maximum length in characters of a subject that users name. NATS closes the connection of who
sends one that is much longer (`max_control_line`)."""

_AGENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,200}")
_LOG = re.compile(
    r"\.(?:event|live)\.(0|[1-9][0-9]{0,3})"
    r"\.([A-Za-z0-9_-]{1,200})\.([A-Za-z0-9_-]{1,200})"
    r"\.([0-9a-f]{12})\.(\1-\4[0-9a-f]{20})"
)
"""What follows the prefix in the subject of a log: shard, tenant, agent, thread, task."""
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")
_ESCAPE = re.compile(rb"_([0-9a-f]{2})")

_KEY_TOKENS = 3
_VERSIONED_TOKENS = 6
"""Tokens of a run of a pinned version, after the prefix: task, run, priority and version."""
_PUSH_TOKENS = (4, 5)

NORMAL = "normal"
"""The priority that run subjects omit."""

UNUSUAL = ("high", "low")
"""The priorities that a run subject contains as its last token."""

PROCESS_REPLIES = "processes"
"""Token behind an asker's inbox prefix under which processes answer what they are, and so all that
they may publish to an operator."""


def encode_token(name: str) -> str:
    """Return `name` as one subject token, which `decode_token` reverses.

    Raises:
        InvalidName: `name` is empty, or too long once encoded.
    """
    if not name:
        raise InvalidName("name", name, "must not be empty")
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        # A JSON string may hold half a surrogate pair.
        raise InvalidName("name", name, "must be valid Unicode") from None
    token = "".join(chr(b) if b in _PLAIN else f"_{b:02x}" for b in encoded)
    if len(token) > MAX_TOKEN:
        raise InvalidName("name", name, f"must have at most {MAX_TOKEN} characters when encoded")
    return token


def decode_token(token: str) -> str:
    """Return the name that `encode_token` encoded. Other tokens give readable text."""
    name = _ESCAPE.sub(lambda m: bytes([int(m[1], 16)]), token.encode())
    return name.decode(errors="replace")


def check_agent_name(name: str) -> str:
    """Return `name` if it is a valid agent name.

    Raises:
        InvalidName: It is not 1-64 of ``[A-Za-z0-9_-]``, or does not start with a letter or digit.
    """
    if not _AGENT.fullmatch(name):
        raise InvalidName(
            "agent", name, "must be 1 to 64 of [A-Za-z0-9_-], beginning with a letter or digit"
        )
    return name


def is_token(text: str) -> bool:
    """Return whether `text` is a valid subject token."""
    return _TOKEN.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Subjects:
    """The subjects under one prefix (default ``headrace``)."""

    prefix: str = "headrace"

    def run(self, key: TaskKey, run: int, priority: str = NORMAL, version: str = "") -> str:
        """Return the subject of a run request, for workers of `version` if the task is pinned."""
        usual = f"{self.prefix}.run.{key.tenant}.{key.agent}.{key.task}.{run}"
        if version:
            return f"{usual}.{priority}.{encode_token(version)}"
        return usual if priority == NORMAL else f"{usual}.{priority}"

    def runs_of_task(self, key: TaskKey) -> str:
        """Return the filter for all runs of a task, of any priority and version."""
        return f"{self.prefix}.run.{key.tenant}.{key.agent}.{key.task}.>"

    def runs_of_agent(
        self, agent: str, tenant: str = "*", priority: str = NORMAL, version: str = ""
    ) -> str:
        """Return a consumer's filter for the runs of an agent, tenant, priority and version.

        `version` is a token; empty for tasks that are not pinned.
        """
        usual = f"{self.prefix}.run.{tenant}.{agent}.*.*"
        if version:
            return f"{usual}.{priority}.{version}"
        return usual if priority == NORMAL else f"{usual}.{priority}"

    def runs(self) -> list[str]:
        """Return the subjects of all runs: the RUNS stream."""
        usual = f"{self.prefix}.run.*.*.*.*"
        return [usual, *(f"{usual}.{priority}" for priority in UNUSUAL), f"{usual}.*.*"]

    def delayed(self, run: str) -> str:
        """Return the subject that keeps the run request for subject `run` until it is due."""
        return self._of_kind("delayed", run)

    def due(self, run: str) -> str:
        """Return the subject on which the delayed run request for subject `run` is due."""
        return self._of_kind("due", run)

    def due_runs(self) -> str:
        """Return the filter for all delayed runs that are due."""
        return f"{self.prefix}.due.>"

    def delayed_runs_of_task(self, key: TaskKey) -> list[str]:
        """Return the filters for all delayed runs of a task, due or not."""
        runs = self.runs_of_task(key)
        return [self.delayed(runs), self.due(runs)]

    def queue(self, agent: str) -> str:
        """Return the subject that notifies the agent's workers of a queue that may be new."""
        return f"{self.prefix}.queue.{agent}"

    def drain(self, agent: str, worker: str) -> str:
        """Return the subject that asks a worker of the agent to drain."""
        return f"{self.prefix}.drain.{agent}.{worker}"

    def process(self, service: str, *worker: str) -> str:
        """Return the subject of questions to a service's processes; to a worker: agent and id."""
        return f"{self.prefix}.process.{'.'.join((service, *worker))}"

    def holds(self, agent: str, worker: str) -> str:
        """Return the subject that asks a worker of the agent which runs it holds."""
        return f"{self.prefix}.holds.{agent}.{worker}"

    def event(self, key: TaskKey) -> str:
        """Return the subject of the task's log."""
        return f"{self.prefix}.event.{_place(key)}"

    def events_of_thread(self, tenant: str, agent: str, thread: str) -> str:
        """Return the filter for all logs of a thread's tasks with an agent."""
        return f"{self.prefix}.event.*.{tenant}.{agent}.{thread}.*"

    def live_of_thread(self, tenant: str, agent: str, thread: str) -> str:
        """Return the filter for what JetStream republishes of these logs."""
        return f"{self.prefix}.live.*.{tenant}.{agent}.{thread}.*"

    def shard_events(self, shard: int) -> str:
        """Return the filter for all logs of a shard."""
        return f"{self.prefix}.event.{shard}.>"

    def live(self, key: TaskKey) -> str:
        """Return the subject on which JetStream republishes the task's log."""
        return f"{self.prefix}.live.{_place(key)}"

    def control(self, key: TaskKey) -> str:
        """Return the subject on which the task's holder answers."""
        return f"{self.prefix}.control.{key.tenant}.{key.agent}.{key.task}"

    def state(self, operation: str, *, of_all: bool = False) -> str:
        """Return the subject of a request to one replica of task state, or to all."""
        return f"{self.prefix}.state.{'all.' if of_all else ''}{operation}"

    def dead(self, tenant: str, place: str) -> str:
        """Return the subject of the dead letters of a tenant's agent, trigger or schedule."""
        return f"{self.prefix}.dead.{tenant}.{place}"

    def dead_letters(self) -> str:
        """Return the filter for all dead letters: the DEAD stream."""
        return f"{self.prefix}.dead.*.*"

    def push(self, key: TaskKey, webhook: str, generation: int | None = None) -> str:
        """Return the subject that makes task state deliver pending events to the webhook.

        With a `generation`: retry a delivery that was given up; it ends with that event.
        """
        number = stream_of_shard(key.shard)
        again = "" if generation is None else f".{generation}"
        return f"{self.prefix}.push.{number}.{key.tenant}.{key.agent}.{key.task}.{webhook}{again}"

    def pushes_of_task(self, key: TaskKey) -> str:
        """Return the filter for all webhooks of a task."""
        number = stream_of_shard(key.shard)
        return f"{self.prefix}.push.{number}.{key.tenant}.{key.agent}.{key.task}.>"

    def pushes(self, number: int | None = None) -> str:
        """Return the filter for webhooks of event stream `number`'s tasks, or of all tasks."""
        return f"{self.prefix}.push.{'*' if number is None else number}.>"

    def schedule(self, tenant: str, owner: str, name: str) -> str:
        """Return the subject of a schedule's definition."""
        return f"{self.prefix}.schedule.{tenant}.{owner}.{name}"

    def timer(self, tenant: str, owner: str, name: str) -> str:
        """Return the subject of the message from which JetStream fires a schedule."""
        return f"{self.prefix}.timer.{tenant}.{owner}.{name}"

    def firing(self, tenant: str, owner: str, name: str) -> str:
        """Return the subject of a schedule's firings."""
        return f"{self.prefix}.firing.{tenant}.{owner}.{name}"

    def fired(self, tenant: str, owner: str, name: str) -> str:
        """Return the subject of what a schedule's last firings have begun."""
        return f"{self.prefix}.fired.{tenant}.{owner}.{name}"

    def schedules(self) -> list[str]:
        """Return the subjects of all schedules, their firings and delayed runs: SCHEDULES."""
        every = "*", "*", "*"
        own = [self.schedule(*every), self.timer(*every), self.firing(*every), self.fired(*every)]
        return [*own, f"{self.prefix}.delayed.>", self.due_runs()]

    def changes(self, number: int | None = None) -> str:
        """Return the subject of changes in lists by event stream `number`, or by all streams."""
        return f"{self.prefix}.changes.{'*' if number is None else number}"

    def rates(self) -> str:
        """Return the subject on which gateways share their request counts."""
        return f"{self.prefix}.rates"

    def recheck(self, task: str) -> str:
        """Return the subject that makes every reader of the log check its tail again."""
        return f"{self.prefix}.recheck.{task}"

    def key_of_event(self, subject: str) -> TaskKey:
        """Return the key of the log on `subject` (of `event` or `live`).

        Raises:
            UndecodableMessage: The subject has another form, or names a shard or thread that is
                not the task's.
        """
        # At once, because a rebuild reads the subject of every task. The rest finds what is wrong.
        if subject.startswith(self.prefix) and (found := _LOG.fullmatch(subject, len(self.prefix))):
            _, tenant, agent, _, task = found.groups()
            return TaskKey(tenant, agent, task)
        shard, *tokens = self._tokens(subject, "event", "live")
        thread = tokens.pop(-2) if len(tokens) > _KEY_TOKENS else ""
        key = self._key(subject, tokens)
        if shard != str(key.shard):
            raise UndecodableMessage(subject, f"shard {shard} is not the task's")
        raise UndecodableMessage(subject, f"thread {thread!r} is not the task's")

    def key_of_run(self, subject: str) -> tuple[TaskKey, int]:
        """Return the task and the run of the run request on `subject`, of `run` or `due`.

        Raises:
            UndecodableMessage: The subject has another form.
        """
        tokens = self._tokens(subject, "run", "due")
        if len(tokens) == _VERSIONED_TOKENS:
            tokens = self._without_version(subject, tokens)
        *tokens, run = tokens
        if run in UNUSUAL and tokens:
            *tokens, run = tokens
        if not (run.isascii() and run.isdecimal()):
            raise UndecodableMessage(subject, "its last token is not a generation")
        return self._key(subject, tokens), int(run)

    def priority_of_run(self, subject: str) -> str:
        """Return the priority of the run on `subject`.

        Raises:
            UndecodableMessage: The subject is not a run's.
        """
        tokens = self._tokens(subject, "run", "due")
        last = tokens[-2] if len(tokens) == _VERSIONED_TOKENS else tokens[-1]
        return last if last in UNUSUAL else NORMAL

    def key_of_push(self, subject: str) -> tuple[TaskKey, str]:
        """Return the task and the webhook's token in `subject` (of `push`).

        Raises:
            UndecodableMessage: The subject has another form.
        """
        tokens = self._tokens(subject, "push")[1:]
        if len(tokens) not in _PUSH_TOKENS:
            raise UndecodableMessage(subject, "it does not name a webhook")
        return self._key(subject, tokens[:_KEY_TOKENS]), tokens[_KEY_TOKENS]

    def key_of_schedule(self, subject: str) -> tuple[str, str, str]:
        """Return the tenant, owner and name in `subject` (of `schedule` or `firing`).

        Raises:
            UndecodableMessage: The subject has another form.
        """
        tokens = self._tokens(subject, "schedule", "firing")
        if len(tokens) != _KEY_TOKENS or not all(map(is_token, tokens)):
            raise UndecodableMessage(subject, "its tokens are not tenant, owner and schedule")
        tenant, owner, name = tokens
        return tenant, owner, name

    def _of_kind(self, kind: str, run: str) -> str:
        return f"{self.prefix}.{kind}{run.removeprefix(f'{self.prefix}.run')}"

    @staticmethod
    def _without_version(subject: str, tokens: list[str]) -> list[str]:
        """Return a run's tokens without priority and version."""
        *tokens, priority, version = tokens
        if priority not in {NORMAL, *UNUSUAL} or not is_token(version):
            raise UndecodableMessage(subject, "its last tokens are not a priority and a version")
        return tokens

    def _tokens(self, subject: str, *kinds: str) -> list[str]:
        """Return the tokens after the prefix and one of `kinds`."""
        for kind in kinds:
            if subject.startswith(start := f"{self.prefix}.{kind}."):
                return subject.removeprefix(start).split(".")
        raise UndecodableMessage(subject, f"it is not a {' or '.join(kinds)} subject")

    @staticmethod
    def _key(subject: str, tokens: list[str]) -> TaskKey:
        # NATS also stores what is published on a subject with wildcards. As a task's name they
        # would reach other tasks wherever it becomes a filter.
        if len(tokens) != _KEY_TOKENS or not all(map(is_token, tokens)):
            raise UndecodableMessage(subject, "its tokens are not tenant, agent and task")
        try:
            check_task_id(tokens[-1])
        except InvalidName as error:
            raise UndecodableMessage(subject, str(error)) from None
        return TaskKey(*tokens)


def _place(key: TaskKey) -> str:
    """Return the tokens of a log's subject; it is built for each append."""
    shard, _, digits = key.task.partition("-")
    return f"{shard}.{key.tenant}.{key.agent}.{digits[:THREAD_LENGTH]}.{key.task}"


def shards_of_stream(number: int) -> range:
    """Return the shards that the event stream of that number owns."""
    return range(number * SHARDS_PER_STREAM, (number + 1) * SHARDS_PER_STREAM)


def stream_of_shard(shard: int) -> int:
    """Return the number of the event stream that owns `shard`."""
    return shard // SHARDS_PER_STREAM
