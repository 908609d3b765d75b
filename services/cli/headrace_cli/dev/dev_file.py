"""``dev.json``: the processes of the running development stack, for tools and tests."""

from pathlib import Path
from typing import Literal, NotRequired, TypedDict

from pydantic import TypeAdapter

from headrace_cli.dev.json_file import replace_json

type Role = Literal["gateway", "worker", "task-state", "triggers", "nats", "redis", "prometheus"]


class Process(TypedDict):
    """One process of the stack."""

    role: Role
    index: int
    """Counted per role from 0; a restarted process keeps its index."""
    pid: int
    port: int | None
    """The port on which it listens; None if it does not listen."""
    grpc_port: NotRequired[int]
    """The port on which a gateway listens for gRPC."""


class DevFile(TypedDict):
    """The whole file."""

    processes: list[Process]
    nats_url: str
    redis_url: str


_CONTENT: TypeAdapter[DevFile] = TypeAdapter(DevFile)


def path_in(data_dir: Path) -> Path:
    """Return the path of the file of the stack on `data_dir`."""
    return data_dir / "dev.json"


def write(data_dir: Path, content: DevFile) -> None:
    """Replace the file by `content`; a reader sees the old one or the new one, whole."""
    # The addresses may hold credentials.
    replace_json(path_in(data_dir), content, mode=0o600)


def read(data_dir: Path) -> DevFile | None:
    """Return the file's content; None if it is missing or unreadable."""
    try:
        return _CONTENT.validate_json(path_in(data_dir).read_bytes())
    except (OSError, ValueError):
        return None
