"""Cancelling what an outside agent still does for a task that has ended over our head."""

import logging

from headrace.sdk.ended import EndedTask
from headrace.sdk.errors import Retryable
from headrace_worker.adapters.credentials import AccessRefused
from headrace_worker.adapters.extras import needs
from headrace_worker.adapters.remote_client import Remote
from headrace_worker.adapters.remote_names import remote_of
from headrace_worker.adapters.remote_run import (
    UNAUTHORIZED,
    raise_if_passing,
    status_of,
)

with needs("a2a"):
    import httpx
    from a2a.utils.errors import A2AError

_log = logging.getLogger(__name__)


async def cancel_left(ended: EndedTask, remote: Remote) -> None:
    """Cancel the outside agent's task that `ended` stood for, unless that is over.

    Raises:
        Retryable: the agent is busy or out of reach, or wants a fresh token.
    """
    task, _ = remote_of(ended.told)
    if not task:
        return
    try:
        await remote.cancel(task)
    except (A2AError, httpx.HTTPError, AccessRefused) as error:
        credentials = remote.place.credentials
        if status_of(error) == UNAUTHORIZED and credentials is not None:
            credentials.forget()
            raise Retryable("the outside agent refused the token") from error
        raise_if_passing(error)
        _log.info("task %s: %s could not be canceled: %s", ended.key.task, task, error)
