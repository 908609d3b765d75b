"""``headrace agui check``: run an agent and report which rules each event keeps or breaks."""

import json
import sys
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPResponse
from pathlib import Path
from uuid import uuid4

import click

from headrace.model.events import Json
from headrace.sdk.agent import CATEGORIES
from headrace_cli.agui.checker import Checker
from headrace_cli.agui.finding import RULES, Finding, required
from headrace_cli.agui.report import Report
from headrace_cli.agui.wire import Endpoint, framed
from headrace_cli.failures import RequestFailed
from headrace_cli.printer import Printer, with_json


def probed(endpoint: Endpoint) -> Iterator[Finding]:
    """Check the endpoint's answer to a body that is not a RunAgentInput, and its capabilities.

    Raises:
        RequestFailed: the endpoint does not answer.
    """
    with endpoint.post({"messages": "none"}) as answer:
        status = answer.status
        is_refused = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
        yield required(is_refused, "http.refusal", f"the endpoint answered {status}")
    status, body = endpoint.get("/capabilities")
    if status == HTTPStatus.OK:
        yield _capabilities(body)


def _capabilities(body: bytes) -> Finding:
    try:
        capabilities = json.loads(body)
    except ValueError:
        capabilities = None
    if not isinstance(capabilities, dict):
        return required(None, "http.capabilities", "the body is not a JSON object")
    unknown = sorted(capabilities.keys() - CATEGORIES)
    return required(not unknown, "http.capabilities", f"unknown: {', '.join(unknown)}")


@click.group()
def agui() -> None:
    """Check AG-UI agents and bridges against the protocol."""


@agui.command()
@click.option("--message", default="Hello", show_default=True, help="Text of the user message.")
@click.option(
    "--input",
    "body",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with a RunAgentInput to send instead of --message.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME:VALUE",
    help="HTTP header to send; repeatable.",
)
@click.option("--old", is_flag=True, help="Act as a 0.x client, which sends no protocol version.")
@click.option("--brief", is_flag=True, help="Print only broken rules.")
@click.option("--strict", is_flag=True, help="Fail for warnings, too.")
@click.option(
    "--timeout",
    default=60.0,
    show_default=True,
    help="Seconds without data after which to give up.",
)
@with_json
@click.argument("url")
def check(  # noqa: PLR0913, PLR0917  # click's options
    url: str,
    message: str,
    body: Path | None,
    headers: tuple[str, ...],
    old: bool,  # noqa: FBT001  # click's option
    brief: bool,  # noqa: FBT001  # click's option
    strict: bool,  # noqa: FBT001  # click's option
    timeout: float,
    printer: Printer,
) -> None:
    """Run the agent at URL, which takes RunAgentInputs, and check its stream.

    Exits with 1 if a rule is broken, with 2 if the agent can't be reached.
    """
    run_input = _read(body) if body else _input(message, old=old)
    report = Report(printer, explain=not brief)
    try:
        endpoint = Endpoint(url, dict(map(_header, headers)), timeout)
        report.section("the endpoint", list(probed(endpoint)))
        with endpoint.post(run_input) as answer:
            _check(answer, run_input, report)
    except RequestFailed as failure:
        raise _InvalidRequest(failure.message) from failure
    report.end()
    sys.exit(1 if report.broken or (strict and report.doubtful) else 0)


@agui.command()
@with_json
def rules(printer: Printer) -> None:
    """Print all rules that `check` applies."""
    for name, description in RULES.items():
        printer.record({"rule": name, "description": description}, f"{name:<20} {description}")


class _InvalidRequest(RequestFailed):
    exit_code = 2


def _check(answer: HTTPResponse, run_input: Json, report: Report) -> None:
    media_type = (answer.getheader("Content-Type") or "").partition(";")[0].strip()
    is_stream = media_type == "text/event-stream"
    fine = answer.status == HTTPStatus.OK
    findings = [
        required(fine, "http.status", f"{answer.status} {answer.reason}"),
        required(is_stream, "http.content-type", f"it is {media_type or 'missing'}"),
    ]
    report.section("the answer", findings)
    if not fine:
        return
    checker = Checker(run_input)
    for event, ill in framed(answer):
        report.event(event, ill + (checker.take(event) if event else []))
    report.section("the end", checker.end())


def _input(message: str, *, old: bool) -> Json:
    version = {} if old else {"protocolVersion": "1.0"}
    user_message = {"id": str(uuid4()), "role": "user", "content": message}
    names = {"threadId": str(uuid4()), "runId": str(uuid4())}
    more: Json = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return {**names, **version, "messages": [user_message], **more}


def _read(path: Path) -> Json:
    try:
        run_input = json.loads(path.read_text())
    except ValueError as error:
        raise click.BadParameter(f"{path} is not JSON: {error}") from None
    names = isinstance(run_input, dict) and {"threadId", "runId"} <= run_input.keys()
    if not names or not isinstance(run_input.get("messages"), list):
        raise click.BadParameter(
            f"{path} is not a RunAgentInput: it needs threadId, runId and messages"
        )
    return dict(run_input)


def _header(header: str) -> tuple[str, str]:
    name, colon, value = header.partition(":")
    if not colon or not name.strip():
        raise click.BadParameter(f"--header {header!r} is not of the form NAME:VALUE")
    return name.strip(), value.strip()
