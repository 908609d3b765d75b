"""Messages that no client library sends."""

import socket
from urllib.parse import urlsplit


def publish_raw(url: str, subject: str | bytes, headers: bytes = b"") -> None:
    """Publish ``junk`` past any client library; return when the server has it."""
    named = subject if isinstance(subject, bytes) else subject.encode()
    sizes = b"%d %d" % (len(headers), len(headers) + 4) if headers else b"4"
    line = b"%b %b %b" % (b"HPUB" if headers else b"PUB", named, sizes)
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(b'CONNECT {"verbose":false,"headers":true}\r\n')
        connection.sendall(line + b"\r\n" + headers + b"junk\r\nPING\r\n")
        received = b""
        while b"PONG" not in received:
            received += connection.recv(4096)
        assert b"-ERR" not in received
