"""Take the last stack's workers out of the agents' directory.

Those of a killed stack would count as alive for some seconds, and the next one would seem ready
before it is. On a server that is embedded, and so just started, nobody serves yet.
"""

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket
from headrace.model.errors import BusUnavailable, StreamsDiffer
from headrace.settings import BusSettings
from headrace_cli.failures import CannotStart, Misconfigured


async def forget_workers(settings: BusSettings) -> None:
    """Forget who served which agent; the agents stay known.

    Raises:
        Misconfigured: its streams are not what the settings ask for.
        CannotStart: the server at `nats_url` does not do what it is told.
    """
    bus = Bus(settings)
    try:
        await bus.connect("headrace-dev")
        await Bucket(bus, bus.streams.agents).forget("live.>")
    except StreamsDiffer as trouble:
        raise Misconfigured(str(trouble)) from trouble
    except BusUnavailable as trouble:
        raise CannotStart(f"the embedded nats-server does not serve: {trouble}") from trouble
    finally:
        await bus.close()
