"""Dead letters for what the log holds but nobody can read."""

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime

from headrace.model.messages import DeadLetter
from headrace_task_state.arrival import Arrival

BODY_MOST = 256 * 1024
"""Bytes of a body that a letter carries; base64 must fit a bus message with it."""

HEADERS_MOST = 64 * 1024
"""Characters of headers that a letter carries beside it."""

_REASON_MOST = 4096


def letter(arrival: Arrival, reason: str) -> DeadLetter:
    """Return the letter that says why `arrival` (or one event of it) was stepped over."""
    msg = arrival.msg
    if len(msg.data) > BODY_MOST:
        reason = f"{reason} (body cut from {len(msg.data)} bytes to {BODY_MOST})"
    return DeadLetter(
        reason=reason[:_REASON_MOST],
        subject=msg.subject,
        task=msg.subject.rpartition(".")[2],
        sequence=arrival.sequence,
        headers=_kept(msg.headers or {}),
        body=b64encode(msg.data[:BODY_MOST]).decode(),
        at=datetime.fromtimestamp(arrival.time / 1e9, UTC).isoformat(),
    )


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Return as many of `headers` as fit, in their order: also this came from who knows where."""
    room = HEADERS_MOST
    kept: dict[str, str] = {}
    for name, value in headers.items():
        if len(name) + len(value) <= room:
            kept[name] = value
            room -= len(name) + len(value)
    return kept


def addressee(subject: str, prefix: str) -> tuple[str, str]:
    """Return the tenant and agent whose letter it is; a subject too short for that names none."""
    tokens = subject.removeprefix(f"{prefix}.").split(".")[2:]
    tenant, agent = (*tokens, "unknown", "unknown")[:2]
    return tenant, agent
