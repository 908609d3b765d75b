"""Checks of the environment's settings."""

from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from headrace.secret_settings import setting_errors
from headrace.setting_names import ineffective_settings
from headrace.settings import BusSettings
from headrace_cli.doctor.diagnosis import Diagnosis, ok, problem, warning
from headrace_cli.settings_table import ALL, settings_classes

SUBJECT = "settings"


def check_settings(variables: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Yield what is wrong with the settings of all services in this environment."""
    wrong = [
        problem(SUBJECT, error, f"correct it: {_effect(service)}") for service, error in _invalid()
    ]
    yield from wrong
    for one in ineffective_settings(variables):
        yield warning(SUBJECT, f"{one.name} {one.problem}", one.remedy)
    if not wrong:
        yield ok(SUBJECT, "every service accepts them")


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
