"""The bus of an embedded nats-server: settings without a login, and the last stack's workers."""

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket
from headrace.model.errors import BusUnavailable, StreamsDiffer
from headrace.settings import BusSettings
from headrace_cli.failures import CannotStart, Misconfigured


def without_login(settings: BusSettings, url: str) -> BusSettings:
    """Return `settings` for the embedded server at `url`, without any credentials."""
    fields = type(settings).model_fields
    unset = {
        name: field.get_default(call_default_factory=True)
        for name, field in fields.items()
        if name.startswith("nats_")
    }
    return settings.model_copy(update=unset | {"nats_url": url})


async def forget_workers(settings: BusSettings) -> None:
    """Remove the last stack's workers from the directory; the agents stay known.

    The workers of a killed stack would count as running for some seconds, so the next stack would
    seem ready too early. An embedded server has just been started, so no worker serves yet.

    Raises:
        Misconfigured: the streams differ from the settings.
        CannotStart: the server at `nats_url` does not do what it is asked.
    """
    bus = Bus(settings)
    try:
        await bus.connect("headrace-dev")
        await Bucket(bus, bus.streams.agents).forget("live.>")
    except StreamsDiffer as error:
        raise Misconfigured(str(error)) from error
    except BusUnavailable as error:
        raise CannotStart(f"the embedded nats-server is not ready: {error}") from error
    finally:
        await bus.close()
