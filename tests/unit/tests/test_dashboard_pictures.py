"""The dashboards' pictures show what their queries found, and every panel of the dashboards."""

import json
from collections.abc import Sequence
from html import escape

import pytest

from tests.architecture.tree import ROOT
from tests.pictures import dashboards
from tests.pictures.dashboards import DRAWN, PICTURES, Panel, drawn


def panel(kind: str, **series: Sequence[tuple[float, float]]) -> Panel:
    place = {"x": 0, "y": 0, "w": 8, "h": 8}
    return Panel(
        "Runs", kind, "short", place, [(name, list(points)) for name, points in series.items()]
    )


def test_a_series_is_a_line_as_high_as_its_values() -> None:
    shown = panel("timeseries", one=[(0, 0), (5, 4), (10, 2)])
    picture = drawn("Fleet", [shown], 0, 10)
    [path] = [line for line in picture.splitlines() if 'class="line"' in line]
    points = path.split(' d="M')[1].removesuffix('"/>').split("L")
    (left, low), (_, high), (right, middle) = (map(float, one.split()) for one in points)
    assert left < right
    assert high < middle < low
    assert middle == (low + high) / 2


def test_a_number_is_the_last_one() -> None:
    picture = drawn("Fleet", [panel("stat", one=[(0, 3), (10, 17)])], 0, 10)
    assert ">17</text>" in picture
    assert ">3</text>" not in picture


def test_a_panel_without_values_is_drawn_empty() -> None:
    picture = drawn("Fleet", [panel("timeseries"), panel("stat", one=[])], 0, 10)
    assert picture.count(">Runs</text>") == 2
    assert 'class="line"' not in picture


def test_the_scale_is_the_highest_value() -> None:
    nothing = drawn("Fleet", [panel("timeseries", one=[(0, 0), (10, 0)])], 0, 10)
    assert 'class="small" x="14" y="68">0</text>' in nothing
    something = drawn("Fleet", [panel("timeseries", one=[(0, 2.5), (10, 0)])], 0, 10)
    assert 'class="small" x="14" y="68">2.5</text>' in something


def test_names_are_filled_in_and_escaped() -> None:
    assert dashboards._legend("{{agent}} {{state}}", {"agent": "a", "state": "b"}) == "a b"
    assert "&lt;b&gt;" in drawn("Fleet", [panel("stat", **{"<b>": [(0, 1)]})], 0, 10)


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_in_the_documents_has_every_panel_of_its_dashboard(name: str) -> None:
    picture = (PICTURES / f"dashboard-{name}.svg").read_text()
    panels = json.loads((ROOT / "deploy" / "grafana" / f"{name}.json").read_text())["panels"]
    missing = [one["title"] for one in panels if f">{escape(one['title'])}</text>" not in picture]
    assert panels
    assert missing == []
    assert picture.count('class="line"') >= len(panels) // 2
