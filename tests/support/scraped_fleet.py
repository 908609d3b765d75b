"""A gateway, a worker, a task state and a triggers service that a real Prometheus scrapes."""

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.extra_services import gateway
from tests.support.prometheus import Prometheus
from tests.support.servers import ports
from tests.support.service_process import ServiceProcess
from tests.support.task_submitter import fresh_names
from tests.support.waiting import until
from tests.support.worker_process import WorkerProcess


class ScrapedFleet:
    """Each service can be killed and restarted; Prometheus evaluates the rules."""

    def __init__(
        self,
        folder: Path,
        nats_url: str,
        redis_url: str,
        agents: str,
        rules: Path,
        **settings: str,
    ) -> None:
        """Make a fleet on the servers at these URLs; `settings` go to all services."""
        settings = fresh_names() | settings
        variables = {f"HEADRACE_{key.upper()}": value for key, value in settings.items()}
        worker_port, state_port, triggers_port = ports.pick(), ports.pick(), ports.pick()
        self.gateway, self.url = gateway(folder / "gateway", nats_url, **variables)
        self.worker = WorkerProcess(
            folder / "worker", agents, nats_url, settings, metrics_port=worker_port
        )
        self.task_state = ServiceProcess(
            "task-state",
            folder / "task-state",
            ["task-state"],
            variables
            | {
                "HEADRACE_NATS_URL": nats_url,
                "HEADRACE_REDIS_URL": redis_url,
                "HEADRACE_METRICS_PORT": str(state_port),
            },
            lambda: " is ready" in self.task_state.log.read_text(),
        )
        self.triggers = ServiceProcess(
            "triggers",
            folder / "triggers",
            ["triggers", "serve"],
            variables
            | {"HEADRACE_NATS_URL": nats_url, "HEADRACE_METRICS_PORT": str(triggers_port)},
            lambda: " is ready" in self.triggers.log.read_text(),
        )
        self._targets = {
            "gateway": self.url.removeprefix("http://"),
            "worker": f"127.0.0.1:{worker_port}",
            "task-state": f"127.0.0.1:{state_port}",
            "triggers": f"127.0.0.1:{triggers_port}",
        }
        self.prometheus = Prometheus(folder / "prometheus", self._targets, rules)
        self._running = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as running:
            services = (self.gateway, self.worker, self.task_state, self.triggers)
            for one in (*services, self.prometheus):
                running.enter_context(one)
            until(self.all_are_scraped, "all services are scraped")
            self._running = running.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._running.close()

    def all_are_scraped(self) -> bool:
        """Tell whether Prometheus reaches all services."""
        return len(self.prometheus.query("up == 1")) == len(self._targets)
