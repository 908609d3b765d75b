"""The page of metrics names every metric as Prometheus shows it, and no other."""

import ast
import re
from collections.abc import Iterator

from tests.architecture.tree import ROOT, SOURCE_ROOTS, modules, parsed

_PAGE = ROOT / "docs" / "metrics.md"


def declared() -> Iterator[str]:
    """Yield each name of a metric in the source; packages have such names, too."""
    packages = {path.name for root in SOURCE_ROOTS for path in (ROOT / root).iterdir()}
    for path in modules():
        nodes = list(ast.walk(parsed(path.read_text())))
        counters = {
            id(node.args[0])
            for node in nodes
            if isinstance(node, ast.Call)
            and ast.unparse(node.func).endswith("Counter")
            and node.args
        }
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                name = node.value
                if re.fullmatch(r"(?:headrace|gen_ai)_[a-z_]+", name) and name not in packages:
                    yield f"{name}_total" if id(node) in counters else name


def test_each_metric_has_a_row_in_the_page_of_operations() -> None:
    names = set(declared())
    assert len(names) > 40
    rows = set(re.findall(r"`((?:headrace|gen_ai)_[a-z_]+)`", _PAGE.read_text()))
    assert names - rows == set(), f"add them to the table in {_PAGE}"
    assert rows - names == set(), f"they do not exist: mend {_PAGE}"


def test_gauges_that_all_services_import_have_labels() -> None:
    """Others are exported, as 0, by services that they say nothing of: alerts would believe it."""
    tree = parsed((ROOT / "shared" / "headrace" / "metrics.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    gauges = [call for call in calls if ast.unparse(call.func) == "Gauge"]
    assert len(gauges) >= 5
    assert [ast.unparse(call.args[0]) for call in gauges if len(call.args) < 3] == []
