"""A worker in its own process, which tests can kill, freeze and drain."""

import re
from collections.abc import Mapping
from pathlib import Path

from tests.support.service_process import ServiceProcess

_ROOT = Path(__file__).resolve().parents[2]


class WorkerProcess(ServiceProcess):
    """``headrace worker TARGET``, or with other arguments; modules of the tests can be named."""

    def __init__(
        self,
        folder: Path,
        target: str | list[str],
        nats_url: str,
        names: Mapping[str, str],
        **settings: object,
    ) -> None:
        """Make a worker on the streams and subjects of `names` (`task_submitter.fresh_names`)."""
        environment = {"nats_url": nats_url, **names, **settings}
        super().__init__(
            "worker",
            folder,
            ["worker", *([target] if isinstance(target, str) else target)],
            {
                "PYTHONPATH": str(_ROOT),
                **{f"HEADRACE_{key.upper()}": str(value) for key, value in environment.items()},
            },
            lambda: " serves " in self.output(),
        )

    def output(self) -> str:
        """Return what it has written so far."""
        return self.log.read_text() if self.log.exists() else ""

    @property
    def id(self) -> str:
        """Its instance id, as its control answers and the log name it."""
        found = re.findall(r"(worker-[0-9a-f]+) serves ", self.output())
        return str(found[-1])
