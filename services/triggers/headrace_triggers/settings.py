"""The settings of triggers, from environment variables."""

from pydantic import Field

from headrace.settings import BusSettings


class TriggersSettings(BusSettings):
    """Where metrics are served."""

    role = "triggers"

    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Port for Prometheus metrics and the probes `/healthz` and `/readyz`; 0: disabled."""

    metrics_host: str = "127.0.0.1"
    """Address that the metrics port listens on."""
