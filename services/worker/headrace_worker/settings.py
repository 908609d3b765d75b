"""What a worker is told by its environment."""

from pydantic import Field

from headrace.settings import BusSettings


class WorkerSettings(BusSettings):
    """Variables ``HEADRACE_*`` that a worker reads, beside those of the bus."""

    role = "worker"

    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Port on which this service's metrics are served to Prometheus, and `/healthz` and
    `/readyz` to probes; 0: they are not."""

    metrics_host: str = "127.0.0.1"
    """Address for that."""

    concurrency: int = Field(default=64, ge=1, le=10_000)
    """Runs that one worker works on at a time; it asks for no more than it has room for."""

    drain_seconds: float = Field(default=2.0, ge=0)
    """After SIGTERM, seconds that running runs have to end; then they are handed to others."""

    cleanup_seconds: float = Field(default=5.0, ge=0)
    """Seconds that a cancelled agent has to clean up; then the worker goes on without it."""

    delegation_children: int = Field(default=1000, ge=0)
    """Tasks that one run may ask other agents for, over all its attempts."""

    emit_buffer_events: int = Field(default=2048, ge=1)
    """Events that an agent may be ahead of the log; then it waits."""

    emit_buffer_bytes: int = Field(default=4 * 1024 * 1024, ge=1024)
    """Bytes that an agent may be ahead of the log; then it waits."""
