"""Taking runs off the queue that workers would but drop: there may be none to do so."""

from contextlib import suppress

from headrace.jetstream.connection import Bus
from headrace.jetstream.purge import purge
from headrace.model.errors import BusUnavailable


async def withdraw(bus: Bus, runs: str, patience: float) -> None:
    """Take the runs on subject `runs` off the queue, if that can be done in `patience` seconds.

    It is no loss if not: the log says that they are over, and whoever is handed one drops it.
    """
    with suppress(BusUnavailable):
        await purge(bus, bus.streams.runs, runs, timeout=patience)
