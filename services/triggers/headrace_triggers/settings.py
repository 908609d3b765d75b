"""The settings of triggers, from environment variables."""

from typing import Annotated

from pydantic import Field

from headrace.setting_groups import LIMIT
from headrace.settings import MetricsSettings, RunLimitSettings


class TriggersSettings(RunLimitSettings, MetricsSettings):
    """Where metrics are served, and the limits of what begins."""

    role = "triggers"
    metrics_ports = range(9500, 9520)

    chain_depth: Annotated[int, LIMIT] = Field(default=8, ge=0, le=64)
    """Maximum number of tasks that begin one another by answers on NATS. Further answers become
    dead letters."""

    chain_tasks: Annotated[int, LIMIT] = Field(default=1000, ge=0)
    """Maximum number of tasks of one owner that answers on NATS begin after one event or firing.
    Further ones become dead letters."""

    chain_rate: Annotated[float, LIMIT] = Field(default=50.0, gt=0)
    """Maximum number of tasks per second that answers on NATS begin for one owner, at each replica.
    Others wait in their stream; over core NATS they become dead letters."""
