"""Durations of a gateway that are not settings; a test passes others instead of patching them."""

from dataclasses import dataclass

from headrace.wait_for import ELECTION


@dataclass(frozen=True, slots=True)
class GatewayTiming:
    """All in seconds."""

    starting: float = 10.0
    """For which an event stream's request waits for a gateway that is starting."""
    silence: float = 30.0
    """In which a request's head, or the next bytes of its body, must arrive."""
    body: float = 180.0
    """In which a body must be complete: enough for 10 MB at half a megabit per second."""
    rpc_message: float = 60.0
    """In which an RPC's request message must arrive."""
    usual_rpc_message: float = 0.25
    """In which it usually arrives. Later, it counts as one of the maximum size."""
    first_event: float = ELECTION
    """In which the first event of a task must arrive that has been stored."""
    full_stream: float = 5.0
    """Without an event of a task, after which a full event stream counts as the cause."""
    queue_answer: float = 1.0
    """For a read of the work queue, which admission counts on."""
    queue_interval: float = 1.0
    """Minimum between two such reads without a request for one."""
    credentials_interval: float = 1.0
    """Between checks of the credentials file; a removed token is refused after that."""
    list_spread: float = 3.0
    """Over which watchers of lists are made to request their lists again, all for one reason."""
    feed_silence: float = 10.0
    """Without a new entry, at most twice that, after which a feed keeps only its last one."""
    drain: float = 5.0
    """In which detached work must end when the gateway stops."""


TIMING = GatewayTiming()
