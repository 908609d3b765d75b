"""Task state's settings, from environment variables."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from headrace.setting_groups import CHOICE, LIMIT, RETENTION
from headrace.settings import MetricsSettings, split_commas
from headrace_task_state.store_redis.settings import RedisSettings
from headrace_task_state.usage import KEPT_DAYS


class TaskStateSettings(RedisSettings, MetricsSettings):
    """Where Redis is, how webhooks are delivered, and when a waiting input is asked for again."""

    role = "task-state"
    metrics_ports = range(9480, 9500)

    usage_days: Annotated[int, RETENTION] = Field(default=KEPT_DAYS, ge=1, le=3650)
    """Days for which the usage of a day is kept in Redis."""

    push_allow: Annotated[list[str], CHOICE] = Field(default_factory=list)
    """Comma-separated hosts and networks (``10.1.0.0/16``) that webhooks may use in addition to
    public addresses. Plain HTTP is allowed only for these."""

    push_attempts: int = Field(default=10, ge=1, le=100)
    """Number of attempts to deliver a notification. If all fail, it becomes a dead letter."""

    push_backoff: float = Field(default=1.0, gt=0)
    """Approximate delay in seconds before the second attempt to deliver a notification. It doubles
    with each further attempt."""

    push_backoff_max: float = Field(default=300.0, gt=0)
    """Maximum delay in seconds between attempts to deliver a notification."""

    push_timeout: float = Field(default=15.0, gt=0, le=60)
    """Timeout in seconds of one attempt to deliver a notification, including the connection."""

    push_per_owner: Annotated[int, LIMIT] = Field(default=64, ge=1, le=1000)
    """Maximum number of concurrent notifications for one owner's tasks, per replica."""

    push_per_host: Annotated[int, LIMIT] = Field(default=16, ge=1, le=1000)
    """Maximum number of one owner's concurrent notifications to one host, per replica."""

    trigger_subjects: Annotated[list[str], CHOICE] = Field(default_factory=list)
    """Comma-separated NATS subjects for whose events runs may wait, as of gateways."""

    signing_keys: Annotated[list[Path], CHOICE] = Field(default_factory=list)
    """Comma-separated files with private keys (PEM). The first one signs cards and notifications;
    the others are only published. If empty, the fleet generates a key and stores it in NATS."""

    sweep_after: float = Field(default=5.0, gt=0)
    """Seconds after which a run that no worker has started is requested again."""

    delegation_depth: Annotated[int, LIMIT] = Field(default=8, ge=0, le=64)
    """Maximum depth of delegation. 1: an agent may call another one, which may not call any."""

    delegation_repeats: Annotated[int, LIMIT] = Field(default=3, ge=1)
    """How often one agent may occur in a chain of delegations. This ends agents that call each
    other."""

    start_within: Annotated[float, LIMIT] = Field(default=24 * 3600.0, gt=0)
    """Seconds within which a worker must start a run; otherwise its task is REJECTED. Agents and
    clients may ask for less."""

    _split = field_validator("push_allow", "trigger_subjects", "signing_keys", mode="before")(
        split_commas
    )
