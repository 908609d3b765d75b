"""A PostgreSQL of the machine's packages, for what is measured beside it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import ports

_PACKAGED = "/usr/lib/postgresql/*/bin"
"""Where Debian has the server's programs, which are not in the PATH."""


class Missing(Exception):
    """There is no PostgreSQL; the message says what to install."""


def _programs() -> Path:
    found = shutil.which("pg_isready"), shutil.which("postgres")
    folders = [*Path("/").glob(_PACKAGED[1:]), *(Path(one).parent for one in found if one)]
    for folder in folders:
        if all((folder / name).is_file() for name in ("initdb", "postgres", "pg_isready")):
            return folder
    raise Missing("PostgreSQL is missing: apt-get install postgresql")


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Run a server with its data in `folder` for the length of a block; yield its URL.

    Raises:
        Missing: It is not installed.
    """
    programs, data, port = _programs(), folder / "data", ports.pick()
    # It refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None
    data.mkdir(parents=True)
    if user is not None:
        folder.parent.chmod(0o755)
        shutil.chown(data, user)
    init = [f"{programs}/initdb", "--pgdata", f"{data}", "--username", "bench", "--auth", "trust"]
    subprocess.run(init, user=user, check=True, capture_output=True, cwd="/")
    listens = [
        "--listen_addresses=127.0.0.1",
        f"--port={port}",
        f"--unix_socket_directories={data}",
    ]
    server = [f"{programs}/postgres", "-D", f"{data}", *listens]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(server, user=user, stdout=log, stderr=log, cwd="/")
        try:
            _until_ready(programs, port)
            yield f"postgresql://bench@127.0.0.1:{port}/postgres"
        finally:
            process.terminate()
            process.wait(60)


def _until_ready(programs: Path, port: int) -> None:
    ready = [f"{programs}/pg_isready", "--host", "127.0.0.1", "--port", str(port), "--timeout", "1"]
    for _ in range(60):
        if subprocess.run(ready, check=False, capture_output=True).returncode == 0:
            return
    raise Missing("PostgreSQL does not start; its log says why")
