"""Check every task after a run: what its client received, and its log."""

import itertools
from collections import Counter
from collections.abc import Iterator

from headrace.model.entry import Entry, Stamp
from headrace.model.events import Json
from headrace.model.fork import FORK_OF, FORK_WRITER
from headrace.model.parts import text_of
from headrace.model.step import StepRecord
from headrace.model.task import COMPLETED, INPUT_REQUIRED, TERMINAL
from headrace.model.wait import source_of
from headrace_gateway.protocols.agui.fold import Fold
from tests.chaos.agents import STEPPING, answer_to, mark_of
from tests.chaos.awaited_calls import WAITS, check_waits, is_of_wait
from tests.chaos.clients import AguiClient, Client, ForkingClient, TaskClient
from tests.chaos.record import Log, Record
from tests.chaos.step_journal import StepJournal
from tests.chaos.task_trees import TaskTrees
from tests.support.resuming import Client as Follower
from tests.support.resuming_bindings import Received

_PREFIX = "TASK_STATE_"


class Judge:
    """Compares what clients received with the logs."""

    def __init__(self, record: Record, steps: StepJournal) -> None:
        """Check against `record`, which must be complete, and what `steps` did outside."""
        self._logs, self._steps = record.logs, steps
        self._by_context = {log.context: log for log in record.logs.values() if log.is_whole}
        self.unrecorded = sum(not log.is_whole for log in record.logs.values())
        """Logs that were erased before they could be copied; these are not checked."""
        self.attempts = 0
        """Attempts beyond the first."""
        self.followed = set[str]()
        """Tasks whose id a client knows."""
        self.forks = 0
        """Forks that clients have seen end."""
        self.stepped = 0
        """Tasks whose steps are checked."""
        self.waited = 0
        """Waits whose event is checked."""
        self.task_trees = TaskTrees()

    def check_client(self, client: Client) -> Iterator[str]:
        """Yield where a client did not receive what is stored or what was promised."""
        log = self._log_of(client)
        if log is not None:
            self.followed.add(log.key.task)
        if not client.outcome_name:
            yield f"{_label(client, log)}: its client is still waiting"
        if client.gave_up:
            if log is not None and not log.is_erased:
                yield f"{_label(client, log)}: it was accepted, and then not found"
            return
        if client.expired and log is not None and not log.is_erased:
            yield f"{_label(client, log)}: a gateway says that it is erased, and it is not"
        if log is None:
            # A client whose first answer said that the task has ended knows no id.
            if client.outcome_name == "ended" and not self._is_unrecorded(client):
                yield f"{_label(client, log)}: there is no log"
        elif log.is_whole:
            found = [*_check_received(client, log), *_check_promises(client, log)]
            if isinstance(client, ForkingClient) and client.fork is not None:
                self.forks += 1
                self.followed.add(client.fork["id"])
                found += forked(client.agent, client.fork)
            yield from (f"{_label(client, log)}: {each}" for each in found)

    def check_all(self) -> Iterator[str]:
        """Yield the problems of all logs, followed or not."""
        names = Counter[str]()
        for log in self._logs.values():
            if not log.is_whole:
                continue
            self.task_trees.add(log.key, log.entries)
            attempts = {(entry.stamp.run, entry.stamp.attempt) for entry in log.entries}
            self.attempts += sum(attempt > 1 for _, attempt in attempts)
            sent = Counter(one["messageId"] for one in _by_user(log.task()))
            found = [*overlaps(log.entries), *ends(log), *_twice(sent)]
            if log.key.agent in STEPPING and log.entries[-1].stamp.state == COMPLETED:
                self.stepped += 1
                found += self._check_records(log)
            yield from (f"{log.key.agent} {log.key.task}: {each}" for each in found)
            if not _is_child(log) and not _is_fork(log):
                names.update(sent.keys())
        yield from (f"tasks: {each}" for each in _twice(names))
        yield from self.task_trees.problems()

    def _check_records(self, log: Log) -> Iterator[str]:
        """Yield where a completed task did a step, or got a wait's event, not once."""
        task, records = log.key.task, log.records()
        if len(records) != len({record.id for record in records}):
            yield f"something has two records: {sorted(str(record.id) for record in records)}"
        yield from self._steps.problems(task, [one for one in records if not is_of_wait(one)])
        waits = WAITS if log.key.agent == "waiting" else ()
        self.waited += len(waits)
        yield from check_waits(self._steps, task, records, waits)

    def _log_of(self, client: Client) -> Log | None:
        if isinstance(client, AguiClient):
            return self._by_context.get(client.follower.task.partition("/")[0])
        return self._logs.get(client.follower.task)

    def _is_unrecorded(self, client: Client) -> bool:
        # Only the log says whose run it was.
        return self.unrecorded > 0 and isinstance(client, AguiClient)


def _label(client: Client, log: Log | None) -> str:
    task = log.key.task if log is not None else client.follower.task or "(no id)"
    return f"{type(client).__name__} {client.agent} {task}"


def _check_received(client: Client, log: Log) -> Iterator[str]:
    """Yield where the client received something else than its log, up to its end or erasure."""
    try:
        if isinstance(client, AguiClient):
            _check_run(client, log)
        else:
            _check_task(client.follower, log)
    except AssertionError as difference:
        yield f"the client received: {difference}"


def _check_run(client: AguiClient, log: Log) -> None:
    frames, follower = _frames(log), client.follower
    if follower.over:
        follower.assert_whole(frames)
    else:
        assert _is_part_of(follower.received, frames), "other frames than the run's"


def _check_task(follower: Follower, log: Log) -> None:
    whole, lines = log.whole(), log.lines()
    received = follower.received[follower.joined :]
    if follower.over:
        follower.assert_exact(whole)
    else:
        assert _is_part_of(received, whole.after(0)), "other events than the log's"
    for one in received:
        line = lines[int(one.cursor.partition(":")[2]) - 1]
        assert not one.raw or line in one.raw, f"{one.raw!r} instead of {line!r}"


def _check_promises(client: Client, log: Log) -> Iterator[str]:
    """Yield where the task is not what its client requested."""
    task = log.task()
    state = str(task["status"]["state"]).removeprefix(_PREFIX)
    if state not in client.may_end_as:
        yield f"it ended as {state}: {task['status']}"
    if isinstance(client, TaskClient) and client.view not in (None, task):
        yield "a gateway returned another task"
    sent = Counter(text_of(one["parts"]) for one in _by_user(task))
    yield from (
        f"{text!r} was accepted and is {sent[text]} times in its history"
        for text in client.accepted
        if sent[text] != 1
    )
    if state == "COMPLETED":
        yield from _answered(client, task)


def _answered(client: Client, task: Json) -> Iterator[str]:
    parts = [part for artifact in task.get("artifacts", []) for part in artifact["parts"]]
    answer = "".join(part.get("text", "") for part in parts)
    inputs = [text_of(one["parts"]) for one in _by_user(task)]
    if client.agent == "steered":
        marks = {text: answer.count(mark_of(text)) for text in inputs if mark_of(text)}
        yield from (f"{text!r} was answered {n} times" for text, n in marks.items() if n != 1)
        return
    answered = inputs[1:] if client.agent == "asking" else inputs
    expected = "".join(answer_to(client.agent, text) for text in answered)
    if answer != expected:
        yield f"{inputs} were answered with {answer!r}"


def forked(agent: str, fork: Json) -> Iterator[str]:
    """Yield where a fork did not continue to the whole answer."""
    state = fork["status"]["state"]
    if state not in {f"{_PREFIX}COMPLETED", INPUT_REQUIRED}:
        yield f"its fork {fork['id']} ended as {state}"
    parts = [part for artifact in fork.get("artifacts", []) for part in artifact["parts"]]
    answer = "".join(part.get("text", "") for part in parts)
    expected = "".join(answer_to(agent, text_of(one["parts"])) for one in _by_user(fork))
    if answer != expected:
        yield f"its fork {fork['id']} answered {answer!r}"


def _by_user(task: Json) -> list[Json]:
    messages = [*task.get("history", []), task["status"].get("message", {})]
    return [one for one in messages if one.get("role") == "ROLE_USER"]


def _twice(names: Counter[str]) -> Iterator[str]:
    yield from (f"message {name} was taken {n} times" for name, n in names.items() if n > 1)


def _is_child(log: Log) -> bool:
    return "referenceTaskIds" in log.entries[0].events[0]["task"]["history"][0]


def _is_fork(log: Log) -> bool:
    return FORK_OF in (log.entries[0].events[0]["task"].get("metadata") or {})


def _frames(log: Log) -> list[Received]:
    """Return the AG-UI frames of the log's first run."""
    fold, frames = Fold(1), list[Received]()
    for entry in log.entries:
        for frame in fold.read(entry):
            cursor = f"{entry.stamp.log}:{frame.generation}.{frame.number}"
            frames.append(Received(cursor, frame.event))
    return frames


def _is_part_of(received: list[Received], frames: list[Received]) -> bool:
    """Return whether `received` is a contiguous part of `frames`."""
    at = {frame.cursor: index for index, frame in enumerate(frames)}
    begin = at.get(received[0].cursor, len(frames)) if received else 0
    return frames[begin : begin + len(received)] == received


def overlaps(entries: list[Entry]) -> Iterator[str]:
    """Yield where a worker wrote after another had taken over, or two wrote the same attempt."""
    worked = [entry.stamp for entry in entries if entry.stamp.attempt]
    holds = [(stamp.run, stamp.attempt) for stamp in worked]
    if holds != sorted(holds):
        yield f"attempts overlap: {[hold for hold, _ in itertools.groupby(holds)]}"
    writers, before = dict[tuple[int, int], str](), None
    for hold, stamp in zip(holds, worked, strict=True):
        if _is_beside(stamp):
            if before is not None and _place(stamp) != _place(before):
                yield f"{stamp.writer} has changed attempt {_place(before)} to {_place(stamp)}"
        # The beginning of a fork is a copy of its source's attempts.
        elif (
            not stamp.writer.startswith(f"{FORK_WRITER}-")
            and writers.setdefault(hold, stamp.writer) != stamp.writer
        ):
            yield f"attempt {hold} has two writers: {writers[hold]} and {stamp.writer}"
        before = stamp


def _is_beside(stamp: Stamp) -> bool:
    """Return whether an entry is of another writer than the holder, which continues after it.

    It has a queued message, or the event of a wait.
    """
    if stamp.writer.startswith("wake-"):
        record = None if stamp.step is None else StepRecord.decode(stamp.step, 0)
        return record is not None and source_of(record) is not None
    return stamp.writer.startswith(("input-", "key-"))


def _place(stamp: Stamp) -> tuple[str, int, int]:
    return stamp.state, stamp.run, stamp.attempt


def ends(log: Log) -> Iterator[str]:
    """Yield where a log does not have exactly one terminal state, at its end."""
    states = [entry.stamp.state for entry in log.entries]
    terminal = [state for state in states if state in TERMINAL]
    if len(terminal) > 1 or (terminal and states[-1] not in TERMINAL):
        yield f"it has terminal states before its end: {terminal}"
    if states[-1] not in TERMINAL | {INPUT_REQUIRED}:
        yield f"it has not ended: {states[-1]}"
