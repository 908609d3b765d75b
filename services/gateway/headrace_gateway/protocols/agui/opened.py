"""A run that a client is about to read, however it gets there."""

from dataclasses import dataclass

from headrace_gateway.feeds import Feed
from headrace_gateway.protocols.agui.run_frames import RunFrames


@dataclass(slots=True)
class Opened:
    """A feed and what a client gets of it. Whoever has it must release the feed."""

    feed: Feed
    log: str
    """The log id."""
    frames: RunFrames
    recovered: bool = True
    """False: the client's past is lost, and it is told what stands for it."""
