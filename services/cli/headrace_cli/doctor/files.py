"""Checks of valid settings that a start checks further: files that they name, and networks."""

from collections.abc import Callable, Iterator
from importlib import import_module
from operator import attrgetter

from headrace.model.errors import SettingInvalid
from headrace_cli.doctor.diagnosis import Diagnosis, problem
from headrace_cli.doctor.settings import SUBJECT, errors_in
from headrace_cli.settings_table import settings_classes

# Services never import each other: what reads a file is named.
_READ = (
    (("gateway",), "credentials", "headrace_gateway.server.auth.authenticate:Callers"),
    (("gateway", "triggers"), "quotas", "headrace.tasks.quotas:read_quotas"),
    (("gateway", "task-state"), "signing_keys", "headrace.signing:read_keys"),
    (("worker",), "prices", "headrace_worker.usage:Prices.read"),
    (("task-state",), "push_allow", "headrace_task_state.webhooks.sender:allowed_destinations"),
)
"""Of each setting whose value a start checks further: the services, and what reads its value."""


def check_files() -> Iterator[Diagnosis]:
    """Yield which valid settings of this environment, or files they name, a start would refuse."""
    classes = settings_classes()
    for services, setting, reader in _READ:
        settings_class = classes[services[0]]
        if errors_in(settings_class):
            continue
        if value := getattr(settings_class(), setting):
            try:
                _load(reader)(value)
            except SettingInvalid as error:
                started = " and ".join(f"headrace {one}" for one in services)
                verb = "does" if len(services) == 1 else "do"
                yield problem(SUBJECT, str(error), f"correct it: {started} {verb} not start")


def _load(path: str) -> Callable[[object], object]:
    module, attribute = path.split(":")
    found: Callable[[object], object] = attrgetter(attribute)(import_module(module))
    return found
