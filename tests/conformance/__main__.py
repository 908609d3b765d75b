"""Run the kit and say what came of it: ``make tck TCK=path`` (docs/conformance.md).

The exit code is 0 if every item that fails is a listed one. ``--beside-sdk`` runs the kit against
the official SDK's own server, too, with an agent that does the same, and says where they differ.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance import outcome
from tests.conformance.beside import official
from tests.conformance.kit import ROOT, Kit
from tests.conformance.listed import LISTED, LISTED_03
from tests.support.stack import Stack

VARIANTS = ("agents", "plain", "demanding", "conversing")
"""Names in examples/conformance.py: what the agent's card says."""


def main() -> int:
    """Run what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="tck", description=__doc__)
    parser.add_argument("path", type=Path, help="a copy of a2aproject/a2a-tck")
    parser.add_argument("--card", choices=VARIANTS, help="which agent's card; else the full one")
    parser.add_argument("--skipped", action="store_true", help="tell what was skipped, too")
    parser.add_argument("--beside-sdk", action="store_true", help="the SDK's own server, too")
    arguments = parser.parse_args()
    kit = Kit(arguments.path)
    kit.prepare()
    card = arguments.card or ("conversing" if kit.is_old else "agents")
    is_activating = card == "demanding"
    with tempfile.TemporaryDirectory(prefix="headrace-tck-") as folder:
        with _stack(Path(folder), card) as url:
            items = _run(kit, Path(folder), url, activating=is_activating)
        sys.stdout.write(outcome.table(items))
        if arguments.beside_sdk:
            with official(Path(folder) / "official.log") as url:
                theirs = _run(kit, Path(folder), url, activating=is_activating)
            sys.stdout.write(f"\nthe official SDK's server:\n{outcome.table(theirs)}")
            sys.stdout.write(outcome.differences(items, theirs))
    for item in items:
        if arguments.skipped and item.outcome == "skipped":
            sys.stdout.write(f"skipped: {item.name} ({item.transport}): {item.message}\n")
    return _verdict(items, LISTED_03 if kit.is_old else LISTED)


@contextmanager
def _stack(folder: Path, card: str) -> Iterator[str]:
    environment = {
        "HEADRACE_DEFAULT_AGENT": "conformance",
        "PYTHONPATH": str(ROOT / "examples"),
        # The kit's own receiver of push notifications is on loopback.
        "HEADRACE_PUSH_ALLOW": "localhost,127.0.0.0/8,::1/128",
    }
    with Stack(folder / "stack", agents=f"conformance:{card}", environment=environment) as stack:
        yield stack.url


def _run(kit: Kit, folder: Path, url: str, *, activating: bool) -> list[outcome.Item]:
    report, log = folder / "report.xml", folder / "log"
    report.unlink(missing_ok=True)
    kit.run(url, report, activating=activating, log=log)
    if not report.exists():
        raise SystemExit(f"tck: the kit did not run:\n{log.read_text()}")
    return outcome.read(report)


def _verdict(items: list[outcome.Item], listed: outcome.Reasons) -> int:
    failed = [item for item in items if item.outcome == "failed"]
    unlisted = [item for item in failed if item.name not in listed]
    for item in failed:
        reason = listed.get(item.name, f"NOT LISTED: {item.message}")
        sys.stdout.write(f"\nfailed: {item.name} ({item.transport})\n  {reason}\n")
    return 1 if unlisted or not items else 0


if __name__ == "__main__":
    sys.exit(main())
