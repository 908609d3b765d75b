"""A nats-server that another one replaces once it has many streams."""

import json
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.servers import NatsProcess

MANY: Final = 400
"""Streams. nats-server looks through all of them for each that it makes: the eleven of a fleet
take 16 ms of a core beside 400 others, and 46 ms beside 3,300."""

_TIMEOUT = 60.0


class SuccessiveServers:
    """One nats-server at a time, started when it is asked for."""

    def __init__(self, new_folder: Callable[[], Path], many: int = MANY) -> None:
        """Keep what each server writes in a folder of its own; replace one with `many` streams."""
        self._new_folder, self._many = new_folder, many
        self._server: NatsProcess | None = None

    def current(self) -> NatsProcess:
        """Return the server; a new one instead if it has many streams."""
        if self._server is None or _streams(self._server) >= self._many:
            self._end()
            self._server = NatsProcess(self._new_folder()).start()
        return self._server

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._server is not None:
            self._server.kill()


def _streams(server: NatsProcess) -> int:
    connection = HTTPConnection("127.0.0.1", server.monitor_port, timeout=_TIMEOUT)
    try:
        connection.request("GET", "/jsz")
        return int(json.loads(connection.getresponse().read())["streams"])
    finally:
        connection.close()
