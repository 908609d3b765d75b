"""Processor time until a service is ready, and its memory: ``python -m tests.benchmarks.starts``.

``--other FOLDER`` measures the code of another checkout in turn.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from socket import AF_UNIX, SOCK_DGRAM, socket
from typing import NamedTuple

from tests.benchmarks.private_memory import private_of
from tests.benchmarks.processor_time import seconds_of
from tests.support.servers import NatsProcess, ValkeyProcess, ports
from tests.support.service_process import ServiceProcess

_SERVICES = {
    "gateway": ["gateway"],
    "worker": ["worker", "headrace.demo:agents"],
    "task-state": ["task-state"],
    "triggers": ["triggers", "serve"],
}
_PACKAGES = ("shared", *(f"services/{each}" for each in (*_SERVICES, "cli")))


class Start(NamedTuple):
    """What a process has taken when it is ready."""

    seconds: float
    """Of processor time."""
    memory: float
    """Private, MB."""


def measure(folder: Path, checkouts: list[Path], rounds: int) -> Iterator[str]:
    """Start each service of each checkout in turn; yield a line of the medians per service."""
    with NatsProcess(folder / "nats") as nats, ValkeyProcess(folder / "valkey") as valkey:
        for service, arguments in _SERVICES.items():
            took: dict[Path, list[Start]] = {checkout: [] for checkout in checkouts}
            for number in range(rounds + 1):
                for checkout in checkouts:
                    port = ports.pick()
                    environment = _environment(checkout, port, nats, valkey)
                    start = _start(folder / f"{service}-{port}", service, arguments, environment)
                    if number:  # the first one writes bytecode
                        took[checkout].append(start)
            yield f"{service}: " + ", ".join(_said(each) for each in took.values())


def _said(starts: list[Start]) -> str:
    seconds, memory = [one.seconds for one in starts], [one.memory for one in starts]
    least = f"least {min(seconds):.2f}"
    return f"{statistics.median(seconds):.2f} s ({least}), {statistics.median(memory):.1f} MB"


def _start(folder: Path, service: str, arguments: list[str], environment: dict[str, str]) -> Start:
    """Start a new process until it is ready."""
    with _reports() as (path, is_ready):
        variables = environment | {"NOTIFY_SOCKET": path}
        process = ServiceProcess(service, folder, arguments, variables, is_ready)
        process.anew = True
        with process:
            seconds = seconds_of({service: [process.pid]})[service]
            return Start(seconds, private_of(process.pid) / 1000)


@contextmanager
def _reports() -> Iterator[tuple[str, Callable[[], bool]]]:
    """Give the path of a socket for systemd's report of a start, and whether it has come.

    Requests for `/readyz` would cost the process itself processor time.
    """
    with tempfile.TemporaryDirectory() as folder, socket(AF_UNIX, SOCK_DGRAM) as reports:
        reports.bind(f"{folder}/ready")
        yield reports.getsockname(), lambda: bool(select([reports], [], [], 0)[0])


def _environment(
    checkout: Path, port: int, nats: NatsProcess, valkey: ValkeyProcess
) -> dict[str, str]:
    packages = (checkout / each for each in _PACKAGES)
    return {
        "PYTHONPATH": ":".join(map(str, packages)),
        "HEADRACE_NATS_URL": nats.url,
        "HEADRACE_REDIS_URL": valkey.url,
        "HEADRACE_HTTP_PORT": str(port),
        "HEADRACE_METRICS_PORT": str(port),
        "HEADRACE_GRPC_PORT": str(ports.pick()),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--other", type=Path, action="append", default=[])
    options = parser.parse_args()
    here = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as folder:
        for line in measure(Path(folder), [*options.other, here], options.rounds):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
