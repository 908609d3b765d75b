"""``headrace open``: open the console in the browser."""

import click

from headrace_cli.failures import RequestFailed
from headrace_cli.gateway import console_url, with_url


@click.command("open")
@with_url
@click.option("--print", "prints", is_flag=True, help="Print the console's URL instead.")
def open_console(url: str, *, prints: bool) -> None:
    """Open the console in the browser."""
    console = console_url(url)
    if prints:
        click.echo(console)
    elif click.launch(console) != 0:
        raise RequestFailed(f"no browser can be started here; open {console}")
