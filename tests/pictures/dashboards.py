"""Pictures of the dashboards: their own queries, answered by a Prometheus about a recorded run.

Grafana isn't needed and has not drawn them. The panels stand where the dashboard puts them.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any

import httpx

from tests.architecture.tree import ROOT
from tests.support.clients.bindings import message
from tests.support.extra_services import is_served
from tests.support.plain_http import NO_TLS
from tests.support.scraped_fleet import ScrapedFleet
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.waiting import until

PICTURES = ROOT / "docs" / "pictures"
DRAWN = ("fleet", "agent", "task-state", "nats")
_SECONDS, _WORKER_DIES_AFTER = 90, 45
_CLIENTS = 6
_RATE_INTERVAL = "15s"

_COLUMN, _ROW, _HEAD, _PAD = 46, 24, 30, 6
_MOST_NAMED, _LONGEST_NAME = 4, 25
_COLOURS = ("#0969da", "#1a7f37", "#cf222e", "#9a6700", "#8250df", "#bf3989", "#57606a")
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 15px; font-weight: 600; }
.small { font-size: 10px; fill: #57606a; }
.stat { font-size: 22px; }
.panel { fill: none; stroke: #d0d7de; }
.line { fill: none; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .small { fill: #8d96a0; }
  .panel { stroke: #3d444d; }
}
"""

type Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """A panel, and its series as (name, points of time and value)."""

    title: str
    kind: str
    unit: str
    place: dict[str, int]
    series: Sequence[tuple[str, Points]]


def panels(dashboard: dict[str, Any], url: str, begin: float, end: float) -> list[Panel]:
    """Answer a dashboard's queries by the Prometheus at `url`, from `begin` to `end`."""
    found = list[Panel]()
    for panel in dashboard["panels"]:
        series = [
            (_legend(target.get("legendFormat", ""), one["metric"]), _points(one["values"]))
            for target in panel["targets"]
            for one in _answered(url, target["expr"], begin, end)
        ]
        unit = panel["fieldConfig"]["defaults"].get("unit", "")
        found.append(Panel(panel["title"], panel["type"], unit, panel["gridPos"], series))
    return found


def _answered(url: str, written: str, begin: float, end: float) -> list[Any]:
    expression = written.replace("$__rate_interval", _RATE_INTERVAL).replace("$agent", ".+")
    request = {"query": expression, "start": str(begin), "end": str(end), "step": "1"}
    answer = httpx.get(f"{url}/api/v1/query_range", params=request, verify=NO_TLS, timeout=60)
    series: list[Any] = answer.raise_for_status().json()["data"]["result"]
    return series


def _legend(form: str, labels: dict[str, str]) -> str:
    for name, value in labels.items():
        form = form.replace(f"{{{{{name}}}}}", value)
    return form


def _points(values: list[tuple[float, str]]) -> Points:
    return [(at, float(value)) for at, value in values if isfinite(float(value))]


def drawn(title: str, shown: Sequence[Panel], begin: float, end: float) -> str:
    """Return a dashboard as SVG; it reads well on a light and on a dark page."""
    width = 24 * _COLUMN + 2 * _PAD
    height = _HEAD + _ROW * max(one.place["y"] + one.place["h"] for one in shown) + 2 * _PAD
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        _text("title", 2 * _PAD, 20, f"{title}, {end - begin:.0f} seconds of a recorded run"),
    ]
    for panel in shown:
        lines += _panel(panel, begin, end)
    return "\n".join([*lines, "</svg>", ""])


def _panel(panel: Panel, begin: float, end: float) -> Iterator[str]:
    x = panel.place["x"] * _COLUMN + _PAD
    y = panel.place["y"] * _ROW + _HEAD + _PAD
    width, height = panel.place["w"] * _COLUMN - _PAD, panel.place["h"] * _ROW - _PAD
    yield f'<rect class="panel" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>'
    yield _text("", x + 8, y + 17, panel.title)
    series = [(name, points) for name, points in panel.series if points]
    if panel.kind == "stat":
        for number, (name, points) in enumerate(series[:_MOST_NAMED]):
            at = x + 8 + number * (width - 8) // max(len(series[:_MOST_NAMED]), 1)
            yield _text("stat", at, y + 56, _value(points[-1][1], panel.unit))
            yield _text("small", at, y + 76, name)
        return
    most = max((value for _, points in series for _, value in points), default=0)
    yield _text("small", x + 8, y + 32, _value(most, panel.unit))
    top, bottom = y + 38, y + height - 34
    for number, (_, points) in enumerate(series):
        path = "L".join(
            f"{x + 8 + (at - begin) / (end - begin) * (width - 16):.1f}"
            f" {bottom - max(value, 0) / (most or 1) * (bottom - top):.1f}"
            for at, value in points
        )
        colour = _COLOURS[number % len(_COLOURS)]
        yield f'<path class="line" stroke="{colour}" d="M{path}"/>'
    yield from _legends(series, x + 8, bottom + 14, width - 16)


def _legends(series: Sequence[tuple[str, Points]], x: int, y: int, width: int) -> Iterator[str]:
    # Those with the highest values are named; the others are drawn only.
    highest = sorted(
        enumerate(series), key=lambda one: max(value for _, value in one[1][1]), reverse=True
    )
    named = [one for one in highest if one[1][0]]
    for place, (number, (name, _)) in enumerate(named[:_MOST_NAMED]):
        at, below = x + place % 2 * (width // 2), y + place // 2 * 14
        colour = _COLOURS[number % len(_COLOURS)]
        yield f'<rect x="{at}" y="{below - 7}" width="8" height="8" fill="{colour}"/>'
        yield _text("small", at + 12, below, name[:_LONGEST_NAME])


def _value(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 1e6:.1f} MB"
    if unit == "percentunit":
        return f"{value * 100:.1f} %"
    suffix = {"s": " s", "reqps": " requests/s", "ops": " /s"}.get(unit, "")
    return f"{value:.3g}{suffix}"


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>'


def record(folder: Path) -> dict[str, str]:
    """Return the dashboards of a run: clients at work, and a worker that is killed amidst it."""
    with NatsProcess(folder / "nats") as nats, ValkeyProcess(folder / "valkey") as valkey:
        fleet = ScrapedFleet(
            folder,
            nats.url,
            valkey.url,
            "tests.pictures.agents:agents",
            ROOT / "deploy" / "alerts.yml",
            events_max_bytes="100000000",
        )
        with fleet, ThreadPoolExecutor(_CLIENTS + 1) as clients:
            until(lambda: is_served([fleet.url], "repeat"), "the agents are served")
            begin = time.time()
            end = begin + _SECONDS
            working = [clients.submit(_client, fleet.url, end, at) for at in range(_CLIENTS)]
            time.sleep(_WORKER_DIES_AFTER)
            fleet.worker.restart()
            for client in working:
                client.result()
            return {
                name: _dashboard(name, fleet.prometheus.url, begin, time.time()) for name in DRAWN
            }


def _client(url: str, end: float, number: int) -> None:
    """Send message after message; every eighth asks for an agent that is not there."""
    text = " ".join(["word"] * (4 + 3 * number))
    with httpx.Client(headers={"A2A-Version": "1.0"}, verify=NO_TLS, timeout=60) as http:
        sent = 0
        while time.time() < end:
            agent = "absent" if sent % 8 == 7 else "repeat"
            http.post(f"{url}/v1/agents/{agent}/message:send", json=message(text))
            sent += 1


def _dashboard(name: str, url: str, begin: float, end: float) -> str:
    dashboard = json.loads((ROOT / "deploy" / "grafana" / f"{name}.json").read_text())
    return drawn(dashboard["title"], panels(dashboard, url, begin, end), begin, end)


def main() -> None:
    """Record, and write the pictures to docs/pictures."""
    with tempfile.TemporaryDirectory() as folder:
        for name, picture in record(Path(folder)).items():
            (PICTURES / f"dashboard-{name}.svg").write_text(picture)
            sys.stdout.write(f"dashboard-{name}.svg\n")


if __name__ == "__main__":
    main()
