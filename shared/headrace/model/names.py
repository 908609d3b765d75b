"""Names that travel inside NATS subjects: tenants, owners, agents, tasks.

A subject token holds ``[A-Za-z0-9_-]`` only. A name from outside (a claim in a token, say) may hold
anything, so it is encoded reversibly: each other byte becomes ``_`` and its two hex digits, and so
does ``_`` itself.
"""

import re

from headrace.model.errors import InvalidName

MAX_TOKEN = 200
"""Longest token, in characters: subjects of five tokens stay far below what NATS accepts."""

LONGEST_CONTEXT = 256
"""Characters of a context id and of what AG-UI calls a thread or run: every event repeats it."""

_AGENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,200}")
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")
_ESCAPE = re.compile(rb"_([0-9a-f]{2})")


def encode_token(name: str) -> str:
    """Return `name` as one subject token, which `decode_token` turns back.

    Raises:
        InvalidName: `name` is empty, or too long once encoded.
    """
    if not name:
        raise InvalidName("name", name, "must not be empty")
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        # A JSON string may hold half a surrogate pair.
        raise InvalidName("name", name, "must be Unicode text") from None
    token = "".join(chr(b) if b in _PLAIN else f"_{b:02x}" for b in encoded)
    if len(token) > MAX_TOKEN:
        raise InvalidName("name", name, f"must fit {MAX_TOKEN} characters once encoded")
    return token


def decode_token(token: str) -> str:
    """Return the name that `encode_token` made `token` of; what it made of none is readable."""
    name = _ESCAPE.sub(lambda m: bytes([int(m[1], 16)]), token.encode())
    return name.decode(errors="replace")


def check_agent_name(name: str) -> str:
    """Return `name` if it can be an agent's.

    Raises:
        InvalidName: it is not 1-64 of ``[A-Za-z0-9_-]``, or starts with neither letter nor digit.
    """
    if not _AGENT.fullmatch(name):
        raise InvalidName("agent", name, "must be 1-64 of [A-Za-z0-9_-], first a letter or digit")
    return name


def is_token(text: str) -> bool:
    """Tell whether `text` may stand in a subject as it is."""
    return _TOKEN.fullmatch(text) is not None
