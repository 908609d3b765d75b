"""Reading what a NATS server sends, at a fraction of what nats-py's parser takes.

nats-py matches regular expressions against a buffer that it shortens piece by piece: 10 µs a
message, most of what a reader of many small ones spends. Messages are split off here; whatever else
the server says goes to nats-py's parser, a line at a time.
"""

from nats.errors import ProtocolError
from nats.protocol.parser import Parser

_EOL = b"\r\n"
_MSG, _HMSG = ord("M"), ord("H")
_REPLY = 3
_WITH_REPLY = {_MSG: 5, _HMSG: 6}
"""Words of a control line that names a reply subject."""


class FastParser(Parser):
    """Takes what was read from the socket, and hands each message to the client."""

    def reset(self) -> None:
        """Forget what was begun: a new connection begins anew."""
        super().reset()
        self._rest = bytearray()
        self._least = 0

    async def parse(self, data: bytes = b"") -> None:
        """Take the next bytes.

        Raises:
            ProtocolError: they are not what a NATS server sends.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._least:
                return
            data, self._rest = bytes(self._rest), bytearray()
        at, least = 0, 0
        while (eol := data.find(_EOL, at)) >= 0:
            if data[at] not in _WITH_REPLY:
                await super().parse(data[at : eol + 2])
                at = eol + 2
                continue
            words = data[at:eol].split()
            try:
                first, size = eol + 2, int(words[-1])
                headers = int(words[-2]) if data[at] == _HMSG else 0
                sid = int(words[2])
            except (ValueError, IndexError):
                raise ProtocolError("nats: malformed MSG") from None
            end = first + size
            if end + 2 > len(data):
                least = end + 2 - at
                break
            reply = words[_REPLY] if len(words) == _WITH_REPLY[data[at]] else b""
            body = first + headers
            await self.nc._process_msg(  # noqa: SLF001 - as the parser that this is
                sid, words[1], reply, data[body:end], data[first:body]
            )
            at = end + 2
        self._rest, self._least = bytearray(data[at:]), least
