"""The settings of triggers, from environment variables."""

from typing import Annotated

from pydantic import Field

from headrace.setting_groups import LIMIT, MUST_SET
from headrace.settings import RunLimitSettings


class TriggersSettings(RunLimitSettings):
    """Where metrics are served, and the limits of what begins."""

    role = "triggers"

    delegation_depth: Annotated[int, LIMIT] = Field(default=8, ge=0, le=64)
    """Maximum number of tasks that begin one another by answers on NATS. An answer beyond it begins
    no task: it becomes a dead letter."""

    chain_tasks: Annotated[int, LIMIT] = Field(default=1000, ge=0)
    """Maximum number of tasks of one owner that answers on NATS begin after one event or firing. An
    answer beyond it begins no task: it becomes a dead letter."""

    chain_rate: Annotated[float, LIMIT] = Field(default=50.0, gt=0)
    """Maximum number of tasks per second that answers on NATS begin for one owner, at each replica.
    Answers beyond it wait in their stream; over core NATS they become dead letters."""

    metrics_port: Annotated[int, MUST_SET] = Field(default=0, ge=0, le=65535)
    """Port for Prometheus metrics and the probes `/healthz` and `/readyz`; 0: disabled."""

    metrics_host: Annotated[str, MUST_SET] = "127.0.0.1"
    """Address that the metrics port listens on."""
