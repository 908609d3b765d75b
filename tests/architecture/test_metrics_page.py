"""The page of metrics is what the code declares, as Prometheus shows it.

``python -m tests.architecture.test_metrics_page`` writes it.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.architecture.tree import ROOT, modules, parsed

_PAGE = ROOT / "docs" / "metrics.md"
_NAME = re.compile(r"(?:headrace|gen_ai)_[a-z_]+")
_QUOTED = re.compile(rf'"{_NAME.pattern}"')
_IMPORT = re.compile(r"headrace\.metrics import|headrace import .*\bmetrics\b")
_SHARED = ROOT / "shared" / "headrace" / "metrics.py"

_HEAD = """\
# Metrics

What services export for Prometheus. [Monitoring](run/monitoring.md) says where, and which to look
at first.

Nothing is measured per token, and no label contains a tenant, an owner, a task or text of a
client. Histograms have `_bucket`, `_sum` and `_count`. Where the values of labels are known,
counters start at zero, so that `increase()` includes the first occurrence. `version` is that on
the agent's card, and empty for waiting runs that are not [pinned](agent-versions.md). What a
gateway says of queues, agents and streams describes the fleet, so every gateway says the same:
take the `max by (agent, version)`.

Task states also export FastStream's own metrics (`faststream_received_messages_total`, …) of the
requests that they receive, under `app_name="headrace_task_state"`.
"""


class Metric(NamedTuple):
    """A metric as Prometheus shows it."""

    name: str
    labels: tuple[str, ...]
    meaning: str
    constant: str
    """Under which other modules import it; empty if none does."""


def declared(path: Path) -> Iterator[Metric]:
    """Yield each metric that a module declares: calls, and pairs of a name and its meaning."""
    text = path.read_text()
    if not _QUOTED.search(text):
        return
    tree = parsed(text)
    constants = {
        id(node.value): ast.unparse(node.targets[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
    }
    values = {name: node for node in ast.walk(tree) for name, node in _assigned(node)}
    for node in ast.walk(tree):
        arguments = _arguments(node)
        if len(arguments) < 2 or not isinstance(arguments[0], ast.Constant):
            continue
        name, meaning = arguments[0].value, arguments[1]
        if isinstance(name, str) and _NAME.fullmatch(name) and isinstance(meaning, ast.Constant):
            labels = [label for one in arguments[2:] for label in _texts(one, values)]
            counts = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Counter")
            shown = f"{name}_total" if counts else name
            yield Metric(shown, tuple(labels), str(meaning.value), constants.get(id(node), ""))


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield ast.unparse(node.targets[0]), node.value


def _arguments(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Call():
            return node.args
        case ast.Tuple():
            return node.elts
    return []


def _texts(node: ast.expr, values: dict[str, ast.expr]) -> Iterator[str]:
    """Yield the texts in an argument, or in the constant of the module that it names."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.List(elts=several) | ast.Tuple(elts=several):
            for one in several:
                yield from _texts(one, values)
        case ast.Starred(value=ast.Name(id=name)) if name in values:
            yield from _texts(values[name], values)


def of_services() -> dict[str, list[Metric]]:
    """Return the metrics of each service, and those of several under "Several services"."""
    found: dict[str, list[Metric]] = {}
    for path in modules():
        for metric in declared(path):
            home = _service(path) if path != _SHARED else _only_user(metric.constant)
            found.setdefault(home or "Several services", []).append(metric)
    return {service: found[service] for service in sorted(found, key=_TITLES.index)}


_TITLES = ["gateway", "worker", "task-state", "triggers", "Several services"]


def _service(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "services" else ""


def _only_user(constant: str) -> str:
    """Return the only service whose modules name a constant of the shared metrics."""
    named = re.compile(rf"\b{constant}\b")
    users = {_service(path) for path, text in _importers() if named.search(text)}
    return users.pop() if len(users) == 1 else ""


@cache
def _importers() -> list[tuple[Path, str]]:
    """Return the modules that import shared metrics, with their texts."""
    texts = [(path, path.read_text()) for path in modules()]
    return [(path, text) for path, text in texts if _IMPORT.search(text)]


def page() -> str:
    """Return the page as it should be."""
    return _HEAD + "".join(f"\n{section}" for section in _sections())


def _sections() -> Iterator[str]:
    for service, metrics in of_services().items():
        rows = "".join(
            f"| `{one.name}` | {', '.join(f'`{label}`' for label in one.labels)} |"
            f" {one.meaning.rstrip('.')} |\n"
            for one in metrics
        )
        title = service.replace("-", " ").capitalize()
        yield f"## {title}\n\n| metric | labels | meaning |\n|---|---|---|\n{rows}"


def test_the_page_of_metrics_is_made_anew() -> None:
    assert sum(map(len, of_services().values())) > 45
    assert _PAGE.read_text() == page(), "run: python -m tests.architecture.test_metrics_page"


def test_a_metric_is_read_with_its_labels(tmp_path: Path) -> None:
    module = tmp_path / "some.py"
    module.write_text(
        """\
_BOTH = ("agent", "version")
RUNS = Counter("headrace_runs", "Runs.", ["state"])
gauges = {("headrace_feeds", "Feeds."): len}
_family("headrace_waiting", "Waiting runs.", {}, *_BOTH)
"""
    )
    assert sorted(declared(module)) == [
        Metric("headrace_feeds", (), "Feeds.", ""),
        Metric("headrace_runs_total", ("state",), "Runs.", "RUNS"),
        Metric("headrace_waiting", ("agent", "version"), "Waiting runs.", ""),
    ]


def test_gauges_that_all_services_import_have_labels() -> None:
    """Others are exported, as 0, by services that they say nothing of: alerts would believe it."""
    tree = parsed((ROOT / "shared" / "headrace" / "metrics.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    gauges = [call for call in calls if ast.unparse(call.func) == "Gauge"]
    assert len(gauges) >= 5
    assert [ast.unparse(call.args[0]) for call in gauges if len(call.args) < 3] == []


if __name__ == "__main__":
    _PAGE.write_text(page())
