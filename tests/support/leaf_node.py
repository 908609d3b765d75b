"""A NATS hub and a leaf node of it, each with a JetStream domain of its own."""

from pathlib import Path
from typing import Self

from tests.support.servers import NatsProcess, ports
from tests.support.waiting import until

HUB, LEAF = "hub", "leaf"
"""The names of the domains."""

_CONNECTED = "Leafnode connection created"


class _Place(NatsProcess):
    def __init__(self, folder: Path, domain: str, leafnodes: str) -> None:
        super().__init__(folder, name=domain)
        self._domain, self._leafnodes = domain, leafnodes

    def command(self) -> list[str]:
        command = super().command()
        file = Path(command[-1])
        text = file.read_text().replace("jetstream { ", f"jetstream {{ domain: {self._domain}, ", 1)
        file.write_text(f"{text}leafnodes {{ {self._leafnodes} }}\n")
        return command


class LeafNode:
    """Both servers. A leaf node's clients reach the hub's streams by its domain alone."""

    def __init__(self, folder: Path) -> None:
        """Make them on free ports, with everything under `folder`."""
        port = ports.pick()
        login = "user: leaf, password: p, account: HEADRACE"
        accepts = f"host: 127.0.0.1, port: {port}, authorization {{ {login} }}"
        remote = f'url: "nats-leaf://leaf:p@127.0.0.1:{port}", account: HEADRACE'
        self.hub = _Place(folder / HUB, HUB, accepts)
        self.leaf = _Place(folder / LEAF, LEAF, f"remotes: [ {{ {remote} }} ]")

    def __enter__(self) -> Self:
        self.hub.start()
        self.leaf.start()
        until(lambda: _CONNECTED in self.leaf.log.read_text(), "the leaf is connected", 60)
        return self

    def __exit__(self, *_: object) -> None:
        self.leaf.kill()
        self.hub.kill()
