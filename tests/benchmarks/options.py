"""What the command line asks for."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.benchmarks.bindings import BINDINGS
from tests.benchmarks.contestants import SERVERS
from tests.benchmarks.measures import MEASURES


class Options(argparse.Namespace):
    """The options; see `parse` for what they mean."""

    only: list[str]
    servers: list[str]
    binding: str
    rounds: int
    cores: int
    gateways: int
    workers: int
    task_states: int
    linger: str | None
    tiny: bool
    json: Path | None
    record: bool
    profile: list[str]


def parse(words: Sequence[str]) -> Options:
    """Return the options that `words` give; ends the process where they make no sense."""
    parser = argparse.ArgumentParser(
        prog="make bench",
        description="Measure Headrace beside the official SDK's server, a plain route and fasta2a.",
    )
    _what(parser)
    _how(parser)
    arguments = parser.parse_args(words, Options())
    if arguments.record and (
        arguments.tiny
        or arguments.linger
        or len(arguments.only) < len(MEASURES)
        or len(arguments.servers) < len(SERVERS)
    ):
        parser.error(
            "--record needs all measures of all servers at their full sizes, without --linger"
        )
    return arguments


def _what(parser: argparse.ArgumentParser) -> None:
    measures, servers = [measure.name for measure in MEASURES], [*SERVERS]
    parser.add_argument(
        "--only",
        type=_some_of(measures),
        default=measures,
        metavar="NAME,…",
        help=", ".join(measures),
    )
    parser.add_argument(
        "--servers",
        type=_some_of(servers),
        default=servers,
        metavar="NAME,…",
        help=", ".join(servers),
    )
    parser.add_argument("--binding", choices=BINDINGS, default="jsonrpc")
    parser.add_argument("--gateways", type=int, default=1, metavar="N")
    parser.add_argument("--workers", type=int, default=1, metavar="N")
    parser.add_argument("--task-states", type=int, default=1, metavar="N")
    parser.add_argument("--linger", metavar="SECONDS", help="HEADRACE_APPEND_LINGER of workers")


def _how(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="samples each (3)")
    parser.add_argument(
        "--cores", type=int, default=2, metavar="N", help="how many everything shares (2)"
    )
    parser.add_argument("--tiny", action="store_true", help="only show that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there, too")
    parser.add_argument(
        "--record", action="store_true", help="keep the run, and write docs/benchmarks.md from it"
    )
    parser.add_argument(
        "--profile",
        type=lambda roles: roles.split(","),
        default=[],
        metavar="ROLE,…",
        help="sample gateway, worker, … by py-spy, into profile-*.txt",
    )


def _some_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    def parse_names(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown)} in {', '.join(known)}")
        return names

    return parse_names
