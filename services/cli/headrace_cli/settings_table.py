"""``headrace settings``: every environment variable, from the classes that read them."""

from importlib import import_module

import click
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from headrace.settings import BusSettings

_CLASSES = {
    "every service": "headrace.settings:BusSettings",
    "gateway": "headrace_gateway.settings:GatewaySettings",
    "worker": "headrace_worker.settings:WorkerSettings",
    "task-state": "headrace_task_state.settings:TaskStateSettings",
    "dev": "headrace_cli.dev_settings:DevSettings",
}

_HEAD = """\
# Settings

Every variable that a service reads from its environment, with its default. `headrace dev` hands
its own environment on to the services that it starts. Made by `headrace settings`.
"""


@click.command()
def settings() -> None:
    """Print the table of all environment variables, in Markdown."""
    click.echo(table(), nl=False)


def table() -> str:
    """Return the Markdown page with one table per service."""
    return "\n".join([_HEAD, *(_section(who, _load(path)) for who, path in _CLASSES.items())])


def _load(path: str) -> type[BusSettings]:
    module, attribute = path.split(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, type) and issubclass(found, BusSettings):
        return found
    raise TypeError(f"{path} is no settings class")


def _section(who: str, settings_class: type[BusSettings]) -> str:
    rows = [
        _row(name, field)
        for name, field in settings_class.model_fields.items()
        if _is_own(settings_class, name, field)
    ]
    return "\n".join([f"## {who}\n", "| variable | default | |", "|---|---|---|", *rows, ""])


def _row(name: str, field: FieldInfo) -> str:
    meaning = " ".join((field.description or "").replace("``", "`").split())
    return f"| `HEADRACE_{name.upper()}` | {_default(field)} | {meaning} |"


def _is_own(settings_class: type[BusSettings], name: str, field: FieldInfo) -> bool:
    """Whether the class adds the variable, or says something else of it than every service."""
    if settings_class is BusSettings:
        return True
    inherited = BusSettings.model_fields.get(name)
    return inherited is None or inherited.description != field.description


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    is_none = default in (None, "", []) or isinstance(default, SecretStr)
    return "none" if is_none else f"`{default}`"
