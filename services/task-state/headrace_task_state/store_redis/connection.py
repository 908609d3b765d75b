"""The connections to Redis, and what its trouble means here."""

import logging
from collections.abc import Sequence
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any

from redis.exceptions import NoScriptError, RedisError, ResponseError

from headrace.model.errors import StateUnavailable
from headrace_task_state.store_redis.pool import Server
from headrace_task_state.store_redis.settings import RedisSettings

_log = logging.getLogger(__name__)

type Argument = bytes | str | int | float


class Connection:
    """Redis, asked one script or one transaction at a time.

    Nothing is tried again by itself: a script that was sent may have been carried out.
    """

    def __init__(self, settings: RedisSettings) -> None:
        """Connect where `settings` say when it is needed."""
        self._server = Server(settings)
        self._redis = self._server.client
        self.name = f"Redis at {settings.shown}"
        """What it is and where, for a log."""

    async def check(self) -> None:
        """Return if Redis answers.

        Raises:
            ConnectionError: it does not.
        """
        try:
            await self._redis.ping()
        except RedisError as error:
            raise ConnectionError(str(error)) from error

    async def run(self, name: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:  # noqa: ANN401 - whatever the script returns
        """Run ``lua/<name>.lua`` and return its answer.

        Raises:
            StateUnavailable: Redis does not answer or refuses; the script may have run.
        """
        chosen = script(name)
        try:
            try:
                return await self._redis.evalsha(chosen.digest, len(keys), *keys, *arguments)
            except NoScriptError:
                return await self._redis.eval(chosen.text, len(keys), *keys, *arguments)
        except (RedisError, OSError) as error:
            raise trouble(error) from error

    async def ask(self, *commands: Sequence[Argument]) -> list[Any]:
        """Carry out reading commands as of one moment and return their answers.

        Raises:
            StateUnavailable: Redis does not answer.
        """
        try:
            async with self._redis.pipeline(transaction=True) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                return await pipeline.execute()
        except (RedisError, OSError) as error:
            raise trouble(error) from error

    async def time(self) -> float:
        """Return the time by Redis' clock, seconds since 1970.

        Raises:
            StateUnavailable: Redis does not answer.
        """
        [[seconds, micros]] = await self.ask(["TIME"])
        return int(seconds) + int(micros) / 1_000_000

    async def unlink_all(self, start: str, but: Sequence[str] = ()) -> None:
        """Delete every key that starts with `start`, a few at a time; those of `but` stay.

        Raises:
            StateUnavailable: Redis does not answer; some keys may be left.
        """
        try:
            cursor, kept = 0, {key.encode() for key in but}
            while True:
                cursor, found = await self._redis.scan(cursor, match=f"{start}*", count=500)
                if gone := {*found} - kept:
                    await self._redis.unlink(*gone)
                if cursor == 0:
                    return
        except (RedisError, OSError) as error:
            raise trouble(error) from error

    async def close(self) -> None:
        """Hang up."""
        await self._server.close()


def trouble(error: Exception) -> StateUnavailable:
    """Return what Redis's `error` means to whoever asked."""
    if isinstance(error, ResponseError):
        _log.error("Redis refuses: %s", error)
    return StateUnavailable(f"Redis: {error or type(error).__name__}")


_NEED_LISTINGS = frozenset({"apply", "complete"})


class Script:
    """One script and the digest by which Redis knows it."""

    def __init__(self, name: str) -> None:
        """Read ``lua/<name>.lua``, after what it needs from ``listings.lua``."""
        folder = files(__package__) / "lua"
        shared = (folder / "listings.lua").read_text() if name in _NEED_LISTINGS else ""
        self.name = name
        self.text = shared + (folder / f"{name}.lua").read_text()
        self.digest = sha1(self.text.encode(), usedforsecurity=False).hexdigest()


@cache
def script(name: str) -> Script:
    """Return the script of that name."""
    return Script(name)
