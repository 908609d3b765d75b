"""``headrace dev``: the whole stack on this machine, one command."""

import asyncio

import click

from headrace_cli import dev_run, dev_settings
from headrace_cli.failures import CannotStart
from headrace_cli.services import check_target


@click.command()
@click.option("--gateways", type=int, metavar="N", help="How many gateways (1).")
@click.option("--workers", type=int, metavar="N", help="How many workers (1).")
@click.option("--task-states", type=int, metavar="N", help="How many task states (1).")
@click.option("--agents", metavar="MODULE:ATTR", help="The agents to run (the demo agents).")
@click.option("--config", metavar="FILE", help="A headrace.yaml with agents to run, instead.")
@click.option(
    "--port", type=int, metavar="P", help="Gateway i listens on P+i (8080); 0 picks free ports."
)
@click.option(
    "--ephemeral",
    is_flag=True,
    default=None,
    help="Delete the servers' data at the end.",
)
@click.option("--no-restart", is_flag=True, help="Leave a child that dies dead.")
def dev(  # noqa: PLR0913  # one parameter per flag is how click calls
    *,
    gateways: int | None,
    workers: int | None,
    task_states: int | None,
    agents: str | None,
    config: str | None,
    port: int | None,
    ephemeral: bool | None,
    no_restart: bool,
) -> None:
    """Start NATS, Valkey, gateways, workers and task states; serve until Ctrl-C.

    Prints `ready URL` on stdout once agents answer there; the children's log goes to stderr. The
    environment (HEADRACE_*) counts where no flag is given; HEADRACE_NATS_URL and HEADRACE_REDIS_URL
    replace the embedded servers. DATA_DIR/dev.json tells which processes run.
    """
    settings = dev_settings.load(
        gateways=gateways,
        workers=workers,
        task_states=task_states,
        agents=agents,
        config=config,
        http_port=port,
        ephemeral=ephemeral,
        restart=False if no_restart else None,
    )
    if not settings.config:
        check_target(settings.agents)
    elif agents is not None:
        raise CannotStart("--agents and --config both say which agents to run")
    asyncio.run(dev_run.run(settings))
