"""A NATS hub with a JetStream domain, and a leaf node of it with one of its own or with none."""

from pathlib import Path
from typing import Self

from tests.support.servers import NatsProcess, ports
from tests.support.waiting import until

HUB, LEAF = "hub", "leaf"
"""The names of the domains."""

_MAPPINGS = {"$JS.API.>": f"$JS.{HUB}.API.>", "$KV.>": f"$JS.{HUB}.API.$KV.>"}

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


class _MappingPlace(_Place):
    def command(self) -> list[str]:
        command = super().command()
        file = Path(command[-1])
        lines = [one for one in file.read_text().split("\n") if not one.startswith("jetstream {")]
        mapped = ", ".join(f'"{own}": "{hubs}"' for own, hubs in _MAPPINGS.items())
        account = f"mappings: {{ {mapped} }}"
        file.write_text("\n".join(lines).replace("jetstream: enabled", account, 1))
        return command


class LeafNode:
    """Both servers. A leaf node's clients reach the hub's streams by its domain alone.

    Without a JetStream, the leaf's server maps JetStream's own subjects to that domain.
    """

    def __init__(self, folder: Path, *, has_jetstream: bool = True) -> None:
        """Make them on free ports, with everything under `folder`."""
        port = ports.pick()
        login = "user: leaf, password: p, account: HEADRACE"
        accepts = f"host: 127.0.0.1, port: {port}, authorization {{ {login} }}"
        remote = f'url: "nats-leaf://leaf:p@127.0.0.1:{port}", account: HEADRACE'
        self.hub = _Place(folder / HUB, HUB, accepts)
        place = _Place if has_jetstream else _MappingPlace
        self.leaf = place(folder / LEAF, LEAF, f"remotes: [ {{ {remote} }} ]")

    def __enter__(self) -> Self:
        self.hub.start()
        self.leaf.start()
        until(lambda: _CONNECTED in self.leaf.log.read_text(), "the leaf is connected", 60)
        return self

    def __exit__(self, *_: object) -> None:
        self.leaf.kill()
        self.hub.kill()
