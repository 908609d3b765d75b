"""Checks of the environment's settings, and of the files and networks that they name."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from operator import attrgetter

from pydantic import ValidationError

from headrace.model.errors import SettingInvalid
from headrace.secret_settings import setting_errors
from headrace.setting_names import ineffective_settings
from headrace.settings import BusSettings
from headrace_cli.doctor.diagnosis import Diagnosis, ok, problem, warning
from headrace_cli.settings_table import ALL, settings_classes

_SUBJECT = "settings"

# Services never import each other: what reads a file is named.
_READ = (
    (("gateway",), "credentials", "headrace_gateway.server.auth.authenticate:Callers"),
    (("gateway", "triggers"), "quotas", "headrace.tasks.quotas:read_quotas"),
    (("gateway", "task-state"), "signing_keys", "headrace.signing:read_keys"),
    (("worker",), "prices", "headrace_worker.usage:Prices.read"),
    (("task-state",), "push_allow", "headrace_task_state.webhooks.sender:allowed_destinations"),
)
"""Of each setting whose value a start checks further: the services, and what reads its value."""


def check_settings(variables: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Yield what is wrong with the settings of all services in this environment."""
    wrong = [
        problem(_SUBJECT, error, f"correct it: {_effect(service)}") for service, error in _invalid()
    ]
    yield from wrong
    for one in ineffective_settings(variables):
        yield warning(_SUBJECT, f"{one.name} {one.problem}", one.remedy)
    if not wrong:
        yield ok(_SUBJECT, "every service accepts them")


def _effect(service: str) -> str:
    return "no service starts" if service == ALL else f"headrace {service} does not start"


def errors_in(settings_class: type[BusSettings]) -> list[str]:
    """Return what is invalid in this environment for the settings of this class."""
    try:
        settings_class()
    except ValidationError as invalid:
        return setting_errors(invalid)
    return []


def _invalid() -> Iterator[tuple[str, str]]:
    seen = set[str]()
    for service, settings_class in settings_classes().items():
        for error in errors_in(settings_class):
            if error not in seen:
                yield service, error
            seen.add(error)


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
                yield problem(_SUBJECT, str(error), f"correct it: {started} {verb} not start")


def _load(path: str) -> Callable[[object], object]:
    module, attribute = path.split(":")
    found: Callable[[object], object] = attrgetter(attribute)(import_module(module))
    return found
