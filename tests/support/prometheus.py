"""A real Prometheus and its promtool, where they are installed."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.plain_http import NO_TLS
from tests.support.server_process import ServerProcess
from tests.support.servers import ports

_PROMETHEUS, _PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")

needs_prometheus = pytest.mark.skipif(
    not (_PROMETHEUS and _PROMTOOL),
    reason="Prometheus is not installed (on Debian: apt-get install prometheus)",
)


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    return subprocess.run(
        [str(_PROMTOOL), *arguments], capture_output=True, text=True, timeout=120, check=False
    )


class Prometheus(ServerProcess):
    """Scrapes targets every second, and evaluates rules as often."""

    def __init__(self, folder: Path, targets: Mapping[str, str], rules: Path) -> None:
        """Make the server for `targets` (address by job) and the rule file `rules`."""
        super().__init__("prometheus", folder)
        self._targets, self._rules = targets, rules
        self.url = f"http://127.0.0.1:{ports.pick()}"

    def command(self) -> list[str]:
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(self._rules)],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [address]}]}
                for job, address in self._targets.items()
            ],
        }
        file = self.folder / "prometheus.yml"
        file.write_text(json.dumps(config))
        return [
            str(_PROMETHEUS),
            f"--config.file={file}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
        ]

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/-/ready", verify=NO_TLS).status_code == 200
        except httpx.TransportError:
            return False

    def query(self, expression: str) -> list[Any]:
        """Return the result of a query, now."""
        return query(self.url, expression)


def query(url: str, expression: str) -> list[Any]:
    """Return the result of a query to the Prometheus at `url`, now."""
    answer = httpx.get(
        f"{url}/api/v1/query", params={"query": expression}, verify=NO_TLS, timeout=60
    ).json()
    assert answer["status"] == "success", (expression, answer)
    found: list[Any] = answer["data"]["result"]
    return found
