"""Names in NATS subjects: tenants, owners, agents, tasks.

A subject token contains only ``[A-Za-z0-9_-]``. External names, such as a claim in a token, may
contain anything, so they are encoded reversibly: every other byte, and ``_`` itself, becomes ``_``
and its two hex digits.
"""

import re

from headrace.model.errors import InvalidName

MAX_TOKEN = 200
"""Maximum length of a token in characters. Subjects of five tokens stay far below NATS's limit."""

LONGEST_CONTEXT = 256
"""Maximum length in characters of a context id and of AG-UI's thread and run ids, which every event
repeats."""

_AGENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,200}")
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")
_ESCAPE = re.compile(rb"_([0-9a-f]{2})")


def encode_token(name: str) -> str:
    """Return `name` as one subject token, which `decode_token` reverses.

    Raises:
        InvalidName: `name` is empty, or too long once encoded.
    """
    if not name:
        raise InvalidName("name", name, "must not be empty")
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        # A JSON string may hold half a surrogate pair.
        raise InvalidName("name", name, "must be valid Unicode") from None
    token = "".join(chr(b) if b in _PLAIN else f"_{b:02x}" for b in encoded)
    if len(token) > MAX_TOKEN:
        raise InvalidName("name", name, f"must have at most {MAX_TOKEN} characters when encoded")
    return token


def decode_token(token: str) -> str:
    """Return the name that `encode_token` encoded. Other tokens give readable text."""
    name = _ESCAPE.sub(lambda m: bytes([int(m[1], 16)]), token.encode())
    return name.decode(errors="replace")


def check_agent_name(name: str) -> str:
    """Return `name` if it is a valid agent name.

    Raises:
        InvalidName: It is not 1-64 of ``[A-Za-z0-9_-]``, or does not start with a letter or digit.
    """
    if not _AGENT.fullmatch(name):
        raise InvalidName(
            "agent", name, "must be 1 to 64 of [A-Za-z0-9_-], beginning with a letter or digit"
        )
    return name


def is_token(text: str) -> bool:
    """Return whether `text` is a valid subject token."""
    return _TOKEN.fullmatch(text) is not None
