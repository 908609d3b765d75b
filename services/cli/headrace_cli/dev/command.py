"""``headrace dev``: the whole stack on this machine, one command."""

import asyncio
from pathlib import Path

import click

from headrace_cli.dev import stack
from headrace_cli.dev.settings import drop_ineffective_settings, load
from headrace_cli.services import import_from_here


@click.command()
@click.option("--gateways", type=int, metavar="N", help="Number of gateways (1).")
@click.option("--workers", type=int, metavar="N", help="Number of workers (1).")
@click.option("--task-states", type=int, metavar="N", help="Number of task state services (1).")
@click.option("--triggers", type=int, metavar="N", help="Number of triggers services (1).")
@click.option(
    "--agents",
    multiple=True,
    metavar="MODULE:ATTR",
    help="Agents to run; several: with commas, or repeat it.",
)
@click.option("--config", metavar="FILE", help="headrace.yaml with agents to run instead.")
@click.option(
    "--port", type=int, metavar="P", help="Port of the first gateway (8080); 0: any free ports."
)
@click.option(
    "--ephemeral",
    is_flag=True,
    default=None,
    help="Delete all data at exit.",
)
@click.option("--no-restart", is_flag=True, help="Do not restart services that exit.")
@click.option("--no-reload", is_flag=True, help="Do not reload agents when their code is saved.")
@click.option(
    "--observe", is_flag=True, default=None, help="Start Prometheus beside it, if it is installed."
)
def dev(  # noqa: PLR0913  # one parameter per flag is how click calls
    *,
    gateways: int | None,
    workers: int | None,
    task_states: int | None,
    triggers: int | None,
    agents: tuple[str, ...],
    config: str | None,
    port: int | None,
    ephemeral: bool | None,
    no_restart: bool,
    no_reload: bool,
    observe: bool | None,
) -> None:
    """Run the whole stack on this machine until Ctrl-C.

    Without --agents and --config, runs the agents of the headrace.yaml in this folder; without that
    file, the functions declared with @agent in this folder's modules; without any, the demo agents.
    The first agent is the default agent. Only functions at the top level of modules are found; name
    other agents in headrace.yaml or with --agents.

    Starts NATS, Valkey, gateways, workers, task state and triggers services. Prints `ready URL` on
    stdout once agents answer there, then the URL of NATS, the agents and a command to try; logs go
    to stderr.

    When a Python file of the agents or the headrace.yaml is saved, new workers take over: active
    runs end on the old code, new ones take the new. Code with an error changes nothing. Flags take
    precedence over HEADRACE_* variables. HEADRACE_NATS_URL and HEADRACE_REDIS_URL replace the
    embedded servers. DATA_DIR/dev.json lists the running processes.

    With --observe, workers, task state and triggers serve their metrics, too, and
    DATA_DIR/prometheus/targets.json lists all metrics for Prometheus's file_sd_configs.
    """
    drop_ineffective_settings()
    settings = load(
        gateways=gateways,
        workers=workers,
        task_states=task_states,
        triggers=triggers,
        agents=",".join(agents) if agents else None,
        config=config,
        http_port=port,
        ephemeral=ephemeral,
        restart=False if no_restart else None,
        reload=False if no_reload else None,
        observe=observe,
    )
    import_from_here()
    asyncio.run(stack.run(settings, Path.cwd()))
