"""The dependencies of sending notifications, built from the settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.jetstream.connection import Bus
from headrace.model.errors import InvalidName
from headrace.signing import SigningKeys
from headrace.webhooks import Webhooks
from headrace_task_state.settings import TaskStateSettings
from headrace_task_state.webhooks.attempt import Attempts
from headrace_task_state.webhooks.bodies import Snapshots
from headrace_task_state.webhooks.letters import UndeliveredLetters
from headrace_task_state.webhooks.network import Allowed
from headrace_task_state.webhooks.permits import Permits
from headrace_task_state.webhooks.telling import Backoff, Means


@asynccontextmanager
async def means(bus: Bus, settings: TaskStateSettings) -> AsyncIterator[Means]:
    """Yield the dependencies of sending, on a connected bus.

    Raises:
        InvalidName: HEADRACE_PUSH_ALLOW names what is neither a host nor a network.
        KeyUnreadable: a file of HEADRACE_SIGNING_KEYS holds no key.
        BusUnavailable: the fleet's keys can't be read.
    """
    keys = SigningKeys(bus, settings.signing_keys)
    allowed = _allowed(settings.push_allow)
    attempts = Attempts(keys, allowed, settings.push_timeout)
    try:
        await keys.start()
        yield Means(
            bus,
            Webhooks(bus),
            attempts,
            Backoff(settings.push_attempts, settings.push_backoff, settings.push_backoff_max),
            Permits(settings.push_per_owner, settings.push_per_host),
            UndeliveredLetters(bus),
            Snapshots(bus),
        )
    finally:
        await keys.stop()
        await attempts.close()


def _allowed(items: list[str]) -> Allowed:
    try:
        return Allowed.parse(items)
    except ValueError as error:
        raise InvalidName("HEADRACE_PUSH_ALLOW", ",".join(items), f"is invalid: {error}") from None
