"""Settings of a worker, from its environment."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from headrace.setting_groups import CHOICE, LIMIT, MUST_SET, RETENTION, SIZE
from headrace.settings import MetricsSettings


class WorkerSettings(MetricsSettings):
    """Variables ``HEADRACE_*`` that a worker reads, in addition to those of the bus."""

    role = "worker"
    metrics_ports = range(9520, 9540)

    concurrency: Annotated[int, SIZE] = Field(default=500, ge=1, le=10_000)
    """Maximum number of concurrent runs per worker. Of more than 64, a worker allows only as many
    as leave it processor time."""

    drain_seconds: Annotated[float, CHOICE] = Field(default=2.0, ge=0)
    """After SIGTERM, seconds that active runs have to finish. Then they are handed to other
    workers."""

    cleanup_seconds: Annotated[float, LIMIT] = Field(default=5.0, ge=0, le=300)
    """Seconds that a canceled agent has to clean up. Then the worker continues without it."""

    public_url: Annotated[str | None, MUST_SET] = None
    """URL under which the gateways are reached, as of gateways: for `ctx.webhook`."""

    owner_memory_seconds: Annotated[int, RETENTION] = Field(default=0, ge=0)
    """Seconds after its last write for which a value in an owner's memory (`ctx.memory.of_owner`)
    is kept; 0: until it is deleted."""

    prices: Annotated[Path | None, CHOICE] = None
    """File with prices of models (docs/usage.md), for what agents report without its cost. Read at
    the start."""

    delegation_children: Annotated[int, LIMIT] = Field(default=1000, ge=0)
    """Maximum number of child tasks of one run, over all its attempts."""

    emit_buffer_events: int = Field(default=2048, ge=1)
    """Maximum number of emitted events that are not stored yet. An agent that reaches it waits."""

    emit_buffer_bytes: int = Field(default=4 * 1024 * 1024, ge=1024)
    """Maximum number of emitted bytes that are not stored yet. An agent that reaches it waits."""

    append_linger: float = Field(default=0.06, ge=0, le=0.5)
    """Maximum seconds that text waits to be appended together with the text of other runs, where
    many emit text, and never the first of its block; 0: it never waits."""
