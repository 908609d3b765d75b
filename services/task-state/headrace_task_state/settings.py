"""What task state is told by its environment."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from headrace.settings import BusSettings, split_commas
from headrace_task_state.store_redis.settings import RedisSettings


class TaskStateSettings(RedisSettings, BusSettings):
    """Where Redis is, how long tasks are kept, and when a waiting input is asked for again."""

    role = "task-state"

    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Port on which this service's metrics are served to Prometheus, and `/healthz` and
    `/readyz` to probes; 0: they are not."""

    metrics_host: str = "127.0.0.1"
    """Address for that."""

    retention: float = Field(default=7 * 24 * 3600.0, gt=0)
    """Seconds for which a finished task is kept; then all of it goes, but for a tombstone without
    content that stays for `HEADRACE_TOMBSTONE_SECONDS`."""

    waiting_retention: float = Field(default=30 * 24 * 3600.0, gt=0)
    """Seconds for which a task may wait for its user's input; then it is CANCELED, and kept for
    `HEADRACE_RETENTION` like any other that has ended."""

    push_allow: Annotated[list[str], NoDecode] = Field(default_factory=list)
    """Hosts and networks (``10.1.0.0/16``), comma-separated, that webhooks may have beside public
    addresses; plain HTTP is for these only."""

    push_attempts: int = Field(default=10, ge=1, le=100)
    """Attempts after which a notification is given up and becomes a dead letter."""

    push_backoff: float = Field(default=1.0, gt=0)
    """Seconds until the second attempt, about; the time doubles with each further one."""

    push_backoff_max: float = Field(default=300.0, gt=0)
    """What that time grows to, seconds."""

    push_timeout: float = Field(default=15.0, gt=0, le=60)
    """Seconds that a webhook has to answer, connecting included."""

    push_per_owner: int = Field(default=64, ge=1, le=1000)
    """Notifications of one owner's tasks that may be under way at a time, for each replica."""

    push_per_host: int = Field(default=16, ge=1, le=1000)
    """How many of these may go to one host."""

    signing_keys: Annotated[list[Path], NoDecode] = Field(default_factory=list)
    """Files with private keys (PEM), comma-separated: notifications and cards are signed with the
    first, the others are published too. None: the fleet makes a key and keeps it in NATS."""

    sweep_after: float = Field(default=5.0, gt=0)
    """Seconds after which a run is asked for again if no worker has taken it up."""

    delegation_depth: int = Field(default=8, ge=0, le=64)
    """How deep tasks may be delegated: 1 lets an agent ask another, but that one nobody."""

    delegation_repeats: int = Field(default=3, ge=1)
    """How often one agent may occur in a chain of delegations, so that agents that ask each other
    come to an end."""

    start_within: float = Field(default=24 * 3600.0, gt=0)
    """Seconds within which a worker must have begun a run; then its task is REJECTED. Agents and
    clients may want it sooner."""

    _split = field_validator("push_allow", "signing_keys", mode="before")(split_commas)
