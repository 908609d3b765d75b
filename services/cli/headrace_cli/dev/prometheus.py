"""Prometheus beside the development stack, and the file that names what it scrapes."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace_cli.dev.child_process import ChildSpec
from headrace_cli.dev.json_file import replace_json

_HOST = "127.0.0.1"
_INTERVAL = "2s"


@dataclass(frozen=True, slots=True)
class PrometheusServer:
    """One server: where it listens and where it keeps its data."""

    program: str
    port: int
    targets: Path
    """The file that names what to scrape; its configuration is written beside it."""
    storage: Path
    """Holds its data."""
    rules: Path | None
    """A file of alerts."""

    @property
    def url(self) -> str:
        """Where its pages and its API are."""
        return f"http://{_HOST}:{self.port}"

    def command(self) -> list[str]:
        """Write the configuration file and return the command that starts the server with it."""
        file = self.targets.with_name("prometheus.yml")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(self._configuration(), indent=1) + "\n")  # YAML, too
        return [
            self.program,
            f"--config.file={file}",
            f"--storage.tsdb.path={self.storage}",
            f"--web.listen-address={_HOST}:{self.port}",
        ]

    def _configuration(self) -> dict[str, object]:
        return {
            "global": {"scrape_interval": _INTERVAL, "evaluation_interval": _INTERVAL},
            "rule_files": [] if self.rules is None else [str(self.rules.absolute())],
            "scrape_configs": [
                # A change of the file is noticed at once; the interval is for lost notices.
                {
                    "job_name": "headrace",
                    "file_sd_configs": [
                        {"files": [str(self.targets)], "refresh_interval": _INTERVAL}
                    ],
                }
            ],
        }


def program_path() -> str | None:
    """Return the path of the installed Prometheus; None if there is none."""
    return shutil.which("prometheus")


def targets_in(folder: Path) -> Path:
    """Return the path of the file of targets of the stack with its configuration in `folder`."""
    return folder / "prometheus" / "targets.json"


def write_targets(path: Path, children: Iterable[ChildSpec]) -> None:
    """Name the metrics of `children` in the file at `path`, as Prometheus's ``file_sd_configs``.

    The job is the child's role. A reader sees the old file or the new one, whole.
    """
    groups = [
        {"targets": [child.metrics], "labels": {"job": child.role}}
        for child in children
        if child.metrics is not None
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_json(path, groups)


def is_news(line: str) -> bool:
    """Return whether a line of the server's log is more than a report of its normal life."""
    return "level=info" not in line.lower() and "exiting gracefully" not in line
