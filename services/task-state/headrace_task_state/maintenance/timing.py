"""Durations of task state that are not settings; a test passes others instead of patching them."""

from dataclasses import dataclass, field

from headrace.tasks.cancel import CancelTiming
from headrace.tasks.runs import UNUSED
from headrace_task_state.projector.applied import LAG_INTERVAL
from headrace_task_state.projector.follower import OUTPUT_LINGER


@dataclass(frozen=True, slots=True)
class WatchTiming:
    """When a worker counts as dead. In seconds, except for the numbers of questions."""

    interval: float = 0.5
    """Between an answer, or the lack of responders, and the next question to a worker."""
    without_runs: float = 1.0
    """The same after the answer that it holds no runs."""
    answer: float = 1.0
    """For an answer."""
    absences: int = 4
    """Questions in a row that had no responders, after which the worker is dead. A worker that lost
    its connection comes back before: at once to another node, or after 0.25 s."""
    silences: int = 3
    """Questions in a row without an answer, after which the worker is frozen."""
    after_reconnect: float = 3.0
    """After this process lost its own connection, in which no worker is found dead."""
    directory_interval: float = 1.0
    """Between looks for new workers, and between questions to workers that have not answered."""


@dataclass(frozen=True, slots=True)
class MaintenanceTiming:
    """All in seconds."""

    sweep_interval: float = 1.0
    """Between checks for inputs that are due."""
    after_start: float = 5.0
    """After the start of a delayed input, when its run is requested if it has not been."""
    silence: float = 30.0
    """Without output, after which the holder of a running task is contacted."""
    max_silence: float = 300.0
    """Maximum between two contacts; the interval doubles each time."""
    holder_pause: float = 1.0
    """Until holders of running tasks that have not answered are asked again."""
    max_request_interval: float = 60.0
    """Maximum between two requests for one input; the interval doubles each time."""
    orphan_interval: float = 1.0
    """Between checks for child tasks whose parents are due to be checked."""
    summary_interval: float = 1.0
    """Between checks for summaries to complete."""
    queue_interval: float = 60.0
    """Between checks for unused queues."""
    unused_queue: float = UNUSED
    """Without a run, after which a queue is deleted."""
    file_interval: float = 600.0
    """Between searches for files without a task."""
    file_without_task: float = 3600.0
    """After which files whose task was never stored are deleted: its gateway died."""
    version_interval: float = 30.0
    """Between searches for views of other versions that no replica keeps any more."""
    output_linger: float = OUTPUT_LINGER
    """As `RangeFollower` takes it."""
    lag_interval: float = LAG_INTERVAL
    """Without a batch, after which the lag is read from the stream."""
    webhook_without_task: float = 60.0
    """After which a webhook whose task was never stored is deleted: its gateway died."""
    answer_in_doubt: float = 100.0
    """For which an answer on NATS whose outcome is unknown is published again before others: a
    little less than the usual duplicate window of streams, after which it may as well wait."""
    answer_looked_for: float = 60.0
    """After the first attempt at an answer, when its stream is searched for it before it is
    published again: well within the usual duplicate window."""
    watch: WatchTiming = field(default_factory=WatchTiming)
    """Of workers."""
    cancel: CancelTiming = field(default_factory=CancelTiming)
    """Of cancels of child tasks."""
