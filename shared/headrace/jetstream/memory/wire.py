"""The server's side of the NATS protocol: parse commands and encode messages."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_EOL = b"\r\n"
_VERSION = b"NATS/1.0"
_PUB, _HPUB = b"PUB", b"HPUB"

MAX_PAYLOAD = 1024 * 1024
"""Maximum size of a message in bytes, nats-server's default."""

PONG = b"PONG\r\n"
NO_RESPONDERS = b"NATS/1.0 503\r\n\r\n"
"""The header block of the reply to a request without subscribers."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A message that a client publishes."""

    subject: str
    reply: str
    block: bytes
    """Its header block; empty: it has no headers."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Command:
    """Any other command, split into words."""

    words: tuple[str, ...]


class CommandParser:
    """Parses the bytes of one client, which may arrive in arbitrary pieces."""

    def __init__(self) -> None:
        """Start without input."""
        self._rest = b""

    def parse(self, data: bytes) -> Iterator[Publication | Command]:
        """Yield the commands that `data` completes."""
        self._rest += data
        while (eol := self._rest.find(_EOL)) >= 0:
            words = self._rest[:eol].split()
            first = eol + len(_EOL)
            if not words or words[0].upper() not in {_PUB, _HPUB}:
                self._rest = self._rest[first:]
                yield Command(tuple(word.decode() for word in words) or ("",))
                continue
            end = first + int(words[-1])
            if len(self._rest) < end + len(_EOL):
                return
            body = self._rest[first:end]
            self._rest = self._rest[end + len(_EOL) :]
            yield _publication(words, body)


def _publication(words: list[bytes], body: bytes) -> Publication:
    has_headers = words[0].upper() == _HPUB
    named = [word.decode() for word in words[1 : -2 if has_headers else -1]]
    size = int(words[-2]) if has_headers else 0
    return Publication(named[0], named[1] if len(named) > 1 else "", body[:size], body[size:])


def message(sid: str, subject: str, reply: str, block: bytes, data: bytes) -> bytes:
    """Return the bytes that deliver a message to the subscription `sid`."""
    head = f"{subject} {sid} {reply}".rstrip()
    if not block:
        return b"MSG %b %d\r\n%b\r\n" % (head.encode(), len(data), data)
    sizes = (len(block), len(block) + len(data))
    return b"HMSG %b %d %d\r\n%b%b\r\n" % (head.encode(), *sizes, block, data)


def info(client: int) -> bytes:
    """Return the INFO line, which a server sends first."""
    described = {
        "server_id": "memory",
        "version": "2.15.0",
        "headers": True,
        "max_payload": MAX_PAYLOAD,
        "jetstream": True,
        "client_id": client,
    }
    return b"INFO %b\r\n" % json.dumps(described).encode()


def status(code: int, description: str, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the header block of a status message."""
    return b"%b %d %b\r\n%b\r\n" % (_VERSION, code, description.encode(), _lines(headers or {}))


def with_headers(block: bytes, headers: Mapping[str, str]) -> bytes:
    """Return a header block with `headers` appended."""
    head = block[: -len(_EOL)] if block else _VERSION + _EOL
    return b"%b%b\r\n" % (head, _lines(headers))


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()


def matches(pattern: str, subject: str) -> bool:
    """Return whether `subject` matches `pattern`, which may contain NATS's wildcards."""
    wanted, found = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted = wanted[:-1]
        if len(found) <= len(wanted):
            return False
        found = found[: len(wanted)]
    return len(wanted) == len(found) and all(
        one in {"*", other} for one, other in zip(wanted, found, strict=True)
    )
