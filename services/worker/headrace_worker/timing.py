"""Durations of a worker that are not settings; a test passes others instead of patching them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """All in seconds."""

    bare_message: float = 1.5
    """Age of an input up to which a bare Message can answer it: the gateway returns the Task after
    2 s."""
    hand_back: float = 0.4
    """For the agent's clean-up and the last append when a run is handed back: the process is about
    to end."""
    cleanup: float = 10.0
    """Timeout of the clean-up of a task that ended without its agent."""
    cleanup_pauses: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0)
    """Between attempts at such a clean-up."""
    cleanup_log: float = 2.0
    """Between attempts to read the log of such a task."""
    cleanup_deliveries: int = 32
    """Of its request, after which a clean-up is given up although few failures have been seen here:
    it may have killed the workers that tried. No duration."""
    turn_pauses: tuple[float, float] = (0.1, 10.0)
    """Least and greatest pause before the next check of a run that waits its turn."""
    waking: float = 5.0
    """The last part of a sleep, which is spent on the worker; so are sleeps that are no longer."""
    keeps_sleepers: bool = False
    """Whether all of each sleep is: then it ends by the agent's clock, as a test sets it."""
    queue_interval: float = 3.0
    """Maximum between checks for new queues."""
    idle_queue: float = 30.0
    """Without a run, after which a queue is pulled less often."""
    accept_input: float = 1.0
    """For the worker's loop to queue a message. The requester then learns that the loop is blocked,
    well before its own timeout, and queues the message itself."""
    child_lateness: float = 1.0
    """After its deadline, within which a child task should have ended by itself."""
    child_confirmation: float = 3.0
    """Maximum that a run's end waits until its children's logs confirm that they are canceled.
    Children that take longer end by themselves, or task state cancels them."""
    closing_timeout: float = 1.0
    """For the runs that a leaving worker hands back."""
    lease: float = 60.0
    """Of a run that task state would give back if this worker died. Other runs, and all runs while
    task state does not ask, have `ACK_WAIT`."""
    lease_interval: float = 25.0
    """Between renewals of such a lease."""
    watched: float = 2.0
    """After the last question of task state, for which it counts as watching this worker."""
