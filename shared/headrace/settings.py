"""What every service is told by its environment: variables ``HEADRACE_*``, one class per service.

A field's description stands under the field and is what the table in ``docs/`` is generated from.
"""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from headrace.subjects import Subjects


class BusSettings(BaseSettings):
    """Where the bus is and how its streams are kept; each service's settings extend this."""

    model_config = SettingsConfigDict(
        env_prefix="HEADRACE_", use_attribute_docstrings=True, extra="ignore", frozen=True
    )

    nats_url: str = "nats://127.0.0.1:4222"
    """NATS servers, comma-separated URLs."""

    prefix: str = Field(default="headrace", pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$")
    """First tokens of every subject."""

    stream_prefix: str = Field(default="", pattern=r"^[A-Za-z0-9_-]*$")
    """Put before every stream's and bucket's name, for several fleets on one NATS account."""

    replicas: int = Field(default=1, ge=1, le=5)
    """Copies of each stream; 3 on a cluster."""

    event_streams: int = Field(default=1, ge=1, le=64)
    """Number of event streams, 16 shards each. May grow; never shrinks."""

    events_max_bytes: int = Field(default=-1, ge=-1)
    """Size limit of each event stream, bytes; -1 is none. A full stream refuses new tasks (503)."""

    files_max_bytes: int = Field(default=-1, ge=-1)
    """Size limit of the store of large files, bytes; -1 is none. A full store refuses (503)."""

    inline_bytes: int = Field(default=128 * 1024, ge=0)
    """Largest file that travels in a task's log, bytes; larger ones go to the store of files."""

    runs_max: int = Field(default=1_000_000, ge=-1)
    """Runs that the work queue holds, waiting or at work; -1 is no limit. What a full queue does
    not take is REJECTED."""

    startup_timeout: float = Field(default=60.0, gt=0)
    """How long a service waits for NATS or Redis at start, seconds, before it exits non-zero."""

    data_dir: Path = Path(".headrace")
    """Folder for the development stack's data."""

    log_level: str = Field(default="info", pattern=r"^(?i:debug|info|warning|error)$")
    """debug, info, warning or error."""

    @property
    def subjects(self) -> Subjects:
        """The subjects under `prefix`."""
        return Subjects(self.prefix)

    @property
    def nats_servers(self) -> list[str]:
        """`nats_url`, split."""
        return _items(self.nats_url)


def split_commas(value: object) -> object:
    """Return the items of a comma-separated list; what is no text stays as it is."""
    return _items(value) if isinstance(value, str) else value


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def without_credentials(urls: str) -> str:
    """Return comma-separated URLs as they may stand in a log: without user, password and token."""
    shown = []
    for url in _items(urls):
        scheme, separator, rest = url.rpartition("://")
        shown.append(f"{scheme}{separator}{rest.rpartition('@')[2]}")
    return ",".join(shown)
