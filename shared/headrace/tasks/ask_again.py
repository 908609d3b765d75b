"""A run that may not begin now: its task waits for its user, who is told when to come back."""

import secrets

from headrace.jetstream.connection import Bus
from headrace.log import LogWriter, last_entry
from headrace.model import events
from headrace.model.entry import Stamp
from headrace.model.errors import Fenced
from headrace.model.task import INPUT_REQUIRED
from headrace.tasks.begin import Input
from headrace.tasks.end import is_unstarted, writer_of
from headrace.wait_for import ELECTION


async def ask_again(bus: Bus, asked: Input, reason: str) -> None:
    """End the run of a stored input before it begins, with `reason` as the question to its user.

    The next message begins a run that has both in its history. If this raises, the run is
    unstarted, and task state's sweep requests it.

    Raises:
        BusUnavailable: The log does not answer.
        LogLost: The log is gone.
    """
    key, run, request = asked.key, asked.stamp.run, asked.request
    last = await last_entry(bus, key)
    if last is None or not is_unstarted(last, run):
        return
    message = {
        "messageId": f"quota-{secrets.token_hex(5)}",
        "role": "ROLE_AGENT",
        "parts": [{"text": reason}],
    }
    draft = events.status_update(key.task, request.context, INPUT_REQUIRED, message)
    stamp = Stamp(
        *(last.stamp.log, last.last_generation + 1, writer_of("quota"), INPUT_REQUIRED, run),
        owner=request.owner,
    )
    try:
        await LogWriter.after(bus, key, last).append([draft], stamp, ELECTION)
    except Fenced:
        return  # It was canceled meanwhile.
