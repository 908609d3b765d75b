import json
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from headrace_cli.dev.ports import MetricsAddresses, Ports
from headrace_cli.failures import CannotStart

_PICKER = """
from headrace_cli.dev.ports import Ports
ports = Ports()
print([ports.pick() for _ in range(800)], flush=True)
input()
"""


def test_no_port_is_handed_out_twice() -> None:
    ports = Ports()
    picked = [ports.pick() for _ in range(100)]
    assert len(set(picked)) == 100


def test_no_two_processes_pick_the_same_port() -> None:
    command = [sys.executable, "-c", _PICKER]
    with ExitStack() as stack:
        pickers = [
            stack.enter_context(
                subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
                )
            )
            for _ in range(3)
        ]
        picked = [json.loads(p.stdout.readline()) for p in pickers if p.stdout]
        for picker in pickers:
            picker.communicate("\n", timeout=120)
    assert len({port for ports in picked for port in ports}) == 3 * 800


def test_a_picked_port_is_below_those_of_outgoing_connections() -> None:
    assert all(Ports().pick() < 32_768 for _ in range(20))


def test_every_port_of_a_range_must_be_free() -> None:
    ports = Ports()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first := ports.pick()))
        taken.listen()
        with pytest.raises(
            CannotStart, match=f"port {first} on 127.0.0.1 is taken: .* with --port"
        ):
            Ports().claim(first - 1, 2, "--port")


def test_ports_in_a_row_are_claimed_once() -> None:
    first = Ports().pick()
    ports = Ports()
    assert ports.claim(first, 1, "--port") == [first]
    with pytest.raises(CannotStart, match=f"port {first} is requested twice"):
        ports.claim(first, 1, "HEADRACE_GRPC_PORT")


def test_a_range_ends_where_ports_end() -> None:
    with pytest.raises(CannotStart, match="port 65536 does not exist"):
        Ports().claim(65_535, 2, "--port")


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    with pytest.raises(CannotStart, match=r"cannot listen on 192\.0\.2\.1:8080"):
        Ports("192.0.2.1").claim(8080, 1, "--port")


def test_addresses_for_metrics_are_used_again_once_they_are_free() -> None:
    metrics = MetricsAddresses(Ports())
    first = metrics.pick(2)
    second = metrics.pick(2, first)
    assert len({*first, *second}) == 4
    assert metrics.pick(2, second) == first
    assert metrics.pick(3, first[:1])[:3] == [first[1], *second]
