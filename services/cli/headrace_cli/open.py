"""``headrace open``: open the console in the browser."""

import click

from headrace_cli.failures import RequestFailed
from headrace_cli.gateway import console_url, with_url
from headrace_cli.printer import Printer, with_json


@click.command("open")
@with_url
@click.option(
    "--print", "prints", is_flag=True, help="Print the console's URL instead, as --json does."
)
@with_json
def open_console(url: str, *, prints: bool, printer: Printer) -> None:
    """Open the console in the browser."""
    console = console_url(url)
    if prints or printer.as_json:
        printer.record({"url": console}, console)
    elif click.launch(console) != 0:
        raise RequestFailed(f"no browser can be started here; open {console}")
