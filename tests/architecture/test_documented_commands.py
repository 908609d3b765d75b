"""Command lines of `headrace` in the documents name commands and options that exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from unittest.mock import MagicMock

import click
import pytest
from starlette.routing import Route

from headrace_cli.main import main
from headrace_gateway.protocols.fleet.routes import routes
from headrace_gateway.services import Services
from headrace_gateway.settings import GatewaySettings
from tests.architecture.tree import ROOT
from tests.support.document import blocks

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_INLINE = re.compile(r"`(headrace [^`]+)`")
_BETWEEN = re.compile(r"\|\||&&|[|;&\n]|\$\(")
_ENVIRONMENT = re.compile(r"[A-Z_]+=")


def unknown(words: list[str]) -> list[str]:
    """Return what a command line names that the command line does not have."""
    command: click.Command = main
    while isinstance(command, click.Group) and words and words[0].islower() and words[0][0] != "-":
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            return words[:1]
        command, words = found, words[1:]
    options = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    return [word for word in words if word.startswith("--") and word not in options]


def shown_on(page: Path) -> Iterator[list[str]]:
    """Yield the words after ``headrace`` of each command that a page shows."""
    shown = [block.code.replace("\\\n", " ") for block in blocks(page, "sh", "bash")]
    for code in (*shown, *_INLINE.findall(page.read_text())):
        for line in _BETWEEN.split(code):
            words = line.partition("#")[0].replace("'", " ").replace('"', " ").split()
            while words and _ENVIRONMENT.match(words[0]):
                words.pop(0)
            if words[:1] == ["headrace"]:
                yield words[1:]


def test_commands_and_options_that_documents_show_exist() -> None:
    shown = {(page.name, " ".join(words)) for page in PAGES for words in shown_on(page)}
    assert len(shown) > 150
    found = {one: wrong for one in sorted(shown) if (wrong := unknown(one[1].split()))}
    assert found == {}


def on_the_bus(command: click.Command, words: tuple[str, ...] = ("headrace",)) -> Iterator[str]:
    """Yield the commands that work on NATS instead of asking a gateway."""
    if any("--nats-url" in parameter.opts for parameter in command.params):
        yield " ".join(words)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if (one := command.get_command(context, name)) is not None:
                yield from on_the_bus(one, (*words, name))


WITHOUT_ENDPOINT = {
    "headrace doctor": "it looks for why services do not answer",
    "headrace streams plan": "it compares its own settings",
    "headrace streams apply": "it runs before services start",
    "headrace streams mirror": "it sets up a second region",
    "headrace backup": "it writes into a folder",
    "headrace restore": "no service may run",
    "headrace memory delete": "a value is the agent's own",
    "headrace memory list": "a value is the agent's own",
    "headrace memory show": "a value is the agent's own",
    "headrace tasks delete": "its owner calls DeleteTask",
}
"""Commands on the bus that have no endpoint, and why."""


WITH_ENDPOINT = {
    "headrace agents versions": "GET /v1/fleet/agents/{agent}/versions",
    "headrace agents route": "POST /v1/fleet/agents/{agent}:route",
    "headrace agents rollback": "POST /v1/fleet/agents/{agent}:rollback",
    "headrace agents retire": "POST /v1/fleet/agents/{agent}:retire",
    "headrace tasks fail": "POST /v1/agents/{agent}/tasks/{task}:fail",
    "headrace dead list": "GET /v1/dead-letters",
    "headrace dead show": "GET /v1/dead-letters/{id}",
    "headrace dead retry": "POST /v1/dead-letters:retry",
    "headrace dead drop": "POST /v1/dead-letters:drop",
    "headrace rotate-key": "POST /v1/signing-keys:rotate",
}
"""Commands on the bus, and the endpoint that does the same with a role."""


def test_each_command_on_the_bus_has_an_endpoint_or_a_reason_to_have_none() -> None:
    assert sorted([*WITH_ENDPOINT, *WITHOUT_ENDPOINT]) == sorted(on_the_bus(main))
    served = {
        f"{method} {re.sub(r'{number}', '{id}', route.path)}"
        for route in routes(cast("Services", MagicMock(settings=GatewaySettings())))
        if isinstance(route, Route)
        for method in route.methods or ()
    }
    assert set(WITH_ENDPOINT.values()) - served == set()


def test_a_wrong_command_or_option_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("""\
Try `headrace sned --help`, or:

```sh
A=1 headrace send --agnet echo hi | cat   # as here
headrace workers drain W --wait && headrace tasks list
```
""")
    wrong = [unknown(words) for words in shown_on(page)]
    assert wrong == [["--agnet"], [], ["list"], ["sned"]]


@pytest.mark.parametrize("line", ["undo", "agents undo", "tasks --stuck", "dead retry ID --twice"])
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    assert unknown(line.split()) == line.split()[-1:]
