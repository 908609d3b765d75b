"""``headrace completion``: a script for the shell."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands and options in SHELL.

    For example in ~/.bashrc: eval "$(headrace completion bash)"
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"click completes nothing in {shell}")
    program = ctx.find_root().command
    click.echo(kind(program, {}, "headrace", "_HEADRACE_COMPLETE").source())
