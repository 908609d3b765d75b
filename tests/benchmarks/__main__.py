"""Measure, and say what was measured: ``python -m tests.benchmarks`` (``make bench``)."""

import itertools
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import uvloop

from headrace_cli.progress import progress
from tests.benchmarks import contestants, last_run, options, profiling, report, rounds, tables
from tests.benchmarks.bindings import BINDINGS
from tests.benchmarks.contestants import FASTA2A, HEADRACE, OFFICIAL, PLAIN, Contestant
from tests.benchmarks.measures import MEASURES
from tests.benchmarks.options import Options
from tests.benchmarks.profiling import profiled
from tests.benchmarks.rounds import Result
from tests.benchmarks.sizes import FULL, TINY


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the command line says."""
    arguments = options.parse(sys.argv[1:] if words is None else words)
    _share_cores(arguments.cores)
    with ExitStack() as running, tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        servers = [running.enter_context(one) for one in _servers(arguments, Path(folder))]
        with profiled(servers, arguments.profile) as profiles:
            results = uvloop.run(_measure(arguments, servers))
    chosen = [measure for measure in MEASURES if measure.name in results]
    measured = report.as_json(chosen, results)
    shown = (tables.comparison(measured), tables.processes(measured))
    sys.stdout.write("\n".join(["", *(table.as_text() for table in shown)]))
    sys.stdout.write(f"\n{tables.circumstances(measured)}\n")
    for file in profiles:
        sys.stdout.write(
            "\n".join(["", *profiling.summary(file.stem, file.read_text().splitlines())]) + "\n"
        )
    if arguments.json:
        last_run.save(measured, arguments.json)
    if arguments.record:
        last_run.save(measured, last_run.WHOLE)
        last_run.write_pages()


def _share_cores(count: int) -> None:
    """Confine this process, and so everything that it starts, to `count` cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def _servers(arguments: Options, folder: Path) -> list[AbstractContextManager[Contestant]]:
    starts = {
        OFFICIAL: lambda: contestants.official(folder),
        PLAIN: lambda: contestants.plain(folder),
        FASTA2A: lambda: contestants.fasta2a(folder),
        HEADRACE: lambda: contestants.headrace(
            folder,
            gateways=arguments.gateways,
            workers=arguments.workers,
            task_states=arguments.task_states,
            environment={"HEADRACE_APPEND_LINGER": arguments.linger} if arguments.linger else {},
        ),
    }
    return [starts[name]() for name in starts if name in arguments.servers]


async def _measure(
    arguments: Options, servers: Sequence[Contestant]
) -> dict[str, dict[str, Result]]:
    measures = [measure for measure in MEASURES if measure.name in arguments.only]
    samples = sum(
        arguments.rounds
        for measure in measures
        for server in servers
        if rounds.can_take(server, measure, BINDINGS[arguments.binding])
    )
    numbers = itertools.count(1)
    with progress("Samples", samples) as done:

        def say(line: str) -> None:
            sys.stderr.write(f"{line}\n")
            done(next(numbers))

        sizes = TINY if arguments.tiny else FULL
        plan = rounds.Plan(BINDINGS[arguments.binding], sizes, arguments.rounds, say)
        return {measure.name: await rounds.run(measure, servers, plan) for measure in measures}


if __name__ == "__main__":
    main()
