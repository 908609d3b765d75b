"""What came of a run of the kit: its items by transport, from the report that pytest writes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

TRANSPORTS = ("jsonrpc", "http_json", "grpc")
ELSE = "other"

type Reasons = Mapping[str, str]
"""Why items may fail, by name."""


@dataclass(frozen=True, slots=True)
class Item:
    """One test of the kit."""

    name: str
    """Class, if there is one, and name with parameters."""
    transport: str
    outcome: str
    """``passed``, ``failed`` or ``skipped``."""
    message: str = ""
    """Why it failed or was skipped, as the kit says it."""


def read(report: Path) -> list[Item]:
    """Return the items of a JUnit report."""
    return list(_items(ET.parse(report).getroot()))  # noqa: S314 - as above


def _items(root: ET.Element) -> Iterator[Item]:
    for case in root.iter("testcase"):
        place = case.get("classname", "")
        *_, holder = place.split(".")
        name = case.get("name", "")
        full = f"{holder}.{name}" if holder.startswith("Test") else name
        yield Item(full, _transport(place, name), *_outcome(case))


def _outcome(case: ET.Element) -> tuple[str, str]:
    for tag in ("failure", "error", "skipped"):
        if (received := case.find(tag)) is not None:
            outcome = "skipped" if tag == "skipped" else "failed"
            return outcome, received.get("message", "").partition("\n")[0]
    return "passed", ""


def _transport(place: str, name: str) -> str:
    """Return which transport an item is for, as its parameters, its name or its folder say."""
    folders = place.split(".")
    for transport in TRANSPORTS:
        if name.endswith((f"-{transport}]", f"[{transport}]", f"_{transport}")):
            return transport
    return next((transport for transport in TRANSPORTS if transport in folders), ELSE)


def counts(items: list[Item]) -> Mapping[str, Mapping[str, int]]:
    """Return how many items passed, failed and were skipped, by transport and in all."""
    outcomes = ("passed", "failed", "skipped")
    rows = {
        transport: {
            outcome: sum(i.transport == transport and i.outcome == outcome for i in items)
            for outcome in outcomes
        }
        for transport in (*TRANSPORTS, ELSE)
    }
    return rows | {"all": {o: sum(row[o] for row in rows.values()) for o in outcomes}}


def table(items: list[Item]) -> str:
    """Return the counts as text, a line per transport."""
    lines = [f"{'':10}{'passed':>8}{'failed':>8}{'skipped':>9}"]
    for transport, row in counts(items).items():
        lines.append(f"{transport:10}{row['passed']:>8}{row['failed']:>8}{row['skipped']:>9}")
    return "\n".join(lines) + "\n"


def differences(ours: list[Item], theirs: list[Item]) -> str:
    """Return as text, a line each, the items that do not come out alike on two servers.

    Both are of whole runs: names alone do not tell items apart, their order does.
    """
    return "".join(
        f"{item.name} ({item.transport}): {item.outcome} here, {other.outcome} there\n"
        for item, other in zip(ours, theirs, strict=True)
        if item.outcome != other.outcome
    )
