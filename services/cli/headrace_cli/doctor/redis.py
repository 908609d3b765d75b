"""Checks of Redis, with task state's own connection."""

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from headrace.server_versions import REDIS_MINIMUM, ServerTooOld, check_server_version
from headrace_cli.dev import dev_file
from headrace_cli.doctor.diagnosis import Diagnosis, check_clock, ok, problem, warning
from headrace_cli.services import module_of

REDIS = "Redis"

_NEARLY_FULL = 0.8
"""Share of ``maxmemory``."""


async def check_redis() -> AsyncIterator[Diagnosis]:
    """Yield what is found about the Redis of the settings, or of the running `headrace dev`.

    Raises:
        SecretUnreadable: a file in the settings can't be read.
    """
    module = module_of("task-state", "headrace_task_state.store_redis.connection")
    server = module.Server(_settings())
    try:
        before = time.time()
        seconds, microseconds = await server.client.time()
        after = time.time()
        info = await server.client.info()
    except (module.RedisError, OSError) as error:
        text = f"it does not answer: {error}"
        yield problem(REDIS, text, "check HEADRACE_REDIS_URL and its login")
        return
    finally:
        await server.close()
    for finding in check_info(info):
        yield finding
    yield check_clock(REDIS, before, seconds + microseconds / 1_000_000, after)


def _settings() -> Any:  # noqa: ANN401  # task state's settings
    settings = module_of("task-state", "headrace_task_state.settings").TaskStateSettings()
    stack = dev_file.read(Path(settings.data_dir).expanduser())
    if stack is None or "redis_url" in settings.model_fields_set:
        return settings
    return settings.model_copy(update={"redis_url": stack["redis_url"]})


def check_info(info: dict[str, Any]) -> Iterator[Diagnosis]:
    """Check the server's INFO, as redis-py returns it."""
    # Valkey reports the version of Redis that it is compatible with.
    version = str(info["redis_version"])
    try:
        check_server_version(REDIS, version, REDIS_MINIMUM)
    except ServerTooOld as error:
        yield problem(REDIS, str(error), "upgrade the server")
    else:
        name = "valkey" if "valkey_version" in info else "redis"
        yield ok(REDIS, f"{name} {info.get('valkey_version', version)} answered")
    if (policy := info.get("maxmemory_policy", "noeviction")) != "noeviction":
        text = f"maxmemory-policy is {policy}: evicted keys make lists wrong without an error"
        yield problem(REDIS, text, "set maxmemory-policy noeviction")
    limit = int(info.get("maxmemory") or 0)
    if limit and (used := int(info["used_memory"])) > limit * _NEARLY_FULL:
        remedy = "raise maxmemory or shorten HEADRACE_RETENTION"
        yield warning(REDIS, f"{used} of {limit} bytes are used", remedy)
