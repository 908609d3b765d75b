"""Dead letters for what the log holds but nobody can read."""

from base64 import b64encode
from datetime import UTC, datetime

from headrace.messages import DeadLetter
from headrace_task_state.arrival import Arrival

BODY_MOST = 256 * 1024
"""Bytes of a body that a letter carries; base64 must fit a bus message with it."""


def letter(arrival: Arrival, reason: str) -> DeadLetter:
    """Return the letter that says why `arrival` (or one event of it) was stepped over."""
    msg = arrival.msg
    if len(msg.data) > BODY_MOST:
        reason = f"{reason} (body cut from {len(msg.data)} bytes to {BODY_MOST})"
    return DeadLetter(
        reason=reason,
        subject=msg.subject,
        task=msg.subject.rpartition(".")[2],
        sequence=arrival.sequence,
        headers=dict(msg.headers or {}),
        body=b64encode(msg.data[:BODY_MOST]).decode(),
        at=datetime.fromtimestamp(arrival.time / 1e9, UTC).isoformat(),
    )


def addressee(subject: str, prefix: str) -> tuple[str, str]:
    """Return the tenant and agent whose letter it is; a subject too short for that names none."""
    tokens = subject.removeprefix(f"{prefix}.").split(".")[2:]
    tenant, agent = (*tokens, "unknown", "unknown")[:2]
    return tenant, agent
