"""The NATS of the Helm chart without Kubernetes: its manifests' configuration on real servers.

The init container's command writes the accounts, and nats-server reads the rendered file. Only
addresses and folders are replaced, by options of nats-server's command line.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace_cli.dev.nats_server import program_path
from tests.support.deployment import adjusted, get
from tests.support.helm_chart import RELEASE, Manifest, of_kind
from tests.support.server_process import ServerProcess
from tests.support.servers import ports

_ACCOUNTS = "/etc/nats-accounts/"


class ChartNode(ServerProcess):
    """One pod of the StatefulSet."""

    def __init__(self, values: str, index: int, routes: Sequence[int], folder: Path) -> None:
        """Render the set of values; `routes` are the nodes' ports for each other."""
        super().__init__(f"{RELEASE}-nats-{index}", folder)
        self._values, self._index, self._routes = values, index, routes
        self.port, self.monitor_port = ports.pick(), ports.pick()
        self._pod: Manifest = of_kind(values, "StatefulSet")["nats"]["spec"]["template"]["spec"]
        self.environment = {"PATH": os.environ["PATH"], **self._variables()}

    def command(self) -> list[str]:
        configuration = self.folder / "nats" / "nats.conf"
        configuration.parent.mkdir(exist_ok=True)
        stored = of_kind(self._values, "ConfigMap")["nats"]["data"]
        # The only folder that nats-server does not take from its command line, too.
        store = {'"/data"': json.dumps(str(self.folder / "data"))}
        configuration.write_text(adjusted(stored[configuration.name], store))
        self._write_accounts()
        [container] = self._pod["containers"]
        program, option, _ = container["command"]
        assert program == "nats-server"
        return [str(program_path()), option, str(configuration), *self._replaced()]

    def answers(self) -> bool:
        [container] = self._pod["containers"]
        path = container["readinessProbe"]["httpGet"]["path"]
        return get(f"127.0.0.1:{self.monitor_port}", path)[0] == 200

    def begin_to_stop(self) -> None:
        """Run what Kubernetes runs before it ends the container."""
        [container] = self._pod["containers"]
        program, *arguments = container["lifecycle"]["preStop"]["exec"]["command"]
        assert program == "nats-server"
        changed = [word.replace("/tmp/", f"{self.folder}/") for word in arguments]  # noqa: S108 - replaced
        subprocess.run([str(program_path()), *changed], check=True, timeout=60)

    def login(self, user: str) -> dict[str, str]:
        """Return the settings by which a service connects as `user`."""
        return {
            "nats_url": f"nats://127.0.0.1:{self.port}",
            "nats_user": user,
            "nats_password": _password(user.upper().replace("-", "_")),
        }

    def _variables(self) -> dict[str, str]:
        """Return the container's environment, with passwords in place of Secrets."""
        [container] = self._pod["containers"]
        secrets = [one["name"] for one in container["env"] if "secretKeyRef" in str(one)]
        found = {
            name: _password(name.removeprefix("HEADRACE_NATS_").removesuffix("_PASSWORD"))
            for name in secrets
        }
        return {"POD_NAME": self.name, **found}

    def _write_accounts(self) -> None:
        """Run the init container's command."""
        [container] = self._pod["initContainers"]
        folder = self.folder / Path(_ACCOUNTS).name
        folder.mkdir(exist_ok=True)
        command = [word.replace(_ACCOUNTS, f"{folder}/") for word in container["command"]]
        settings = of_kind(self._values, "ConfigMap")["config"]["data"]
        subprocess.run(
            [*command, *container["args"]],
            check=True,
            timeout=90,
            env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **settings},
        )

    def _replaced(self) -> list[str]:
        changes = {
            "--addr": "127.0.0.1",
            "--port": str(self.port),
            "--http_port": str(self.monitor_port),
            "--pid": str(self.folder / "nats.pid"),
        }
        if len(self._routes) > 1:
            changes["--cluster"] = f"nats://127.0.0.1:{self._routes[self._index]}"
            changes["--routes"] = ",".join(f"nats://127.0.0.1:{port}" for port in self._routes)
        return [word for change in changes.items() for word in change]


class ChartNats:
    """All pods of the StatefulSet."""

    def __init__(self, values: str, folder: Path) -> None:
        """Render the set of values and keep everything under `folder`."""
        count = of_kind(values, "StatefulSet")["nats"]["spec"]["replicas"]
        routes = [ports.pick() for _ in range(count)]
        self.nodes = [
            ChartNode(values, index, routes, folder / f"node-{index}") for index in range(count)
        ]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for node in self.nodes:
            self._stack.callback(node.kill)
            node.start(wait=False)
        for node in self.nodes:
            node.until_answers()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stack.close()


def _password(user: str) -> str:
    return f"password-of-{user}"
