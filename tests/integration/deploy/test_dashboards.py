"""Dashboards and alerts on a real Prometheus, which scrapes the three services."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx
import pytest

from tests.support.clients.bindings import message
from tests.support.compose_file import ROOT
from tests.support.extra_services import is_served
from tests.support.helm_chart import render, values_of
from tests.support.plain_http import NO_TLS
from tests.support.prometheus import Prometheus, needs_prometheus
from tests.support.scraped_fleet import ScrapedFleet
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.waiting import eventually, until

pytestmark = needs_prometheus

FOLDER = ROOT / "deploy" / "grafana"
DASHBOARDS = ["agent", "fleet", "nats", "task-state"]
AGENT = "failing"


@cache
def queries(name: str) -> list[str]:
    """Return the queries of a dashboard's panels and variables, as Prometheus reads them."""
    dashboard = json.loads((FOLDER / f"{name}.json").read_text())
    written = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    panels = [one.replace("$__rate_interval", "1m").replace("$agent", ".+") for one in written]
    variables = [one for one in dashboard["templating"]["list"] if one["type"] == "query"]
    return panels + [values_query(one["query"]["query"]) for one in variables]


def values_query(written: str) -> str:
    """Return the query for the values of a label that Grafana's function ``label_values`` names."""
    named = re.fullmatch(r"label_values\((\w+), (\w+)\)", written)
    assert named, f"only label_values(metric, label) is understood: {written}"
    metric, label = named.groups()
    return f'group by ({label}) ({metric}{{{label}!=""}})'


@pytest.fixture(scope="module")
def prometheus(
    nats_server: NatsProcess, valkey: ValkeyProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """A Prometheus that has seen a fleet in which runs of one agent have failed."""
    fleet = ScrapedFleet(
        tmp_path_factory.mktemp("observed"),
        nats_server.url,
        valkey.url,
        "tests.support.failing_agents:agents",
        ROOT / "deploy" / "alerts.yml",
        events_max_bytes="100000000",
    )
    with fleet:
        until(lambda: is_served([fleet.url], AGENT), "the agent is served")
        base, version = f"{fleet.url}/v1/agents/{AGENT}", {"A2A-Version": "1.0"}
        with httpx.Client(base_url=base, headers=version, verify=NO_TLS, timeout=60) as http:
            http.post("/message:send", json=message("hello")).raise_for_status()
            http.get("/tasks").raise_for_status()
        yield fleet.prometheus


@pytest.mark.parametrize("name", DASHBOARDS)
async def test_every_query_of_a_dashboard_finds_something(
    prometheus: Prometheus, name: str
) -> None:
    empty = list(queries(name))
    assert empty

    async def all_are_answered() -> bool:
        empty[:] = [one for one in empty if not prometheus.query(one)]
        return not empty

    try:
        await eventually(all_are_answered, f"{name}: all queries find something")
    finally:
        assert empty == []


async def test_an_alert_fires_on_a_real_fleet(prometheus: Prometheus) -> None:
    firing = 'ALERTS{alertname="HeadraceRunsFail", alertstate="firing"}'

    async def fires() -> list[Any]:
        return prometheus.query(firing)

    [found] = await eventually(fires, "the alert fires")
    assert found["metric"]["agent"] == AGENT


async def test_the_charts_autoscalers_have_figures(prometheus: Prometheus) -> None:
    values = values_of("keda") | {"prometheus": {"matchers": ""}}
    values["workers"] = {"shop": values["workers"]["shop"] | {"agents": [AGENT, "other@2"]}}
    scaled = [one for one in render(values) if one["kind"] == "ScaledObject"]
    requests = [one["spec"]["triggers"][0]["metadata"]["query"] for one in scaled]
    assert len(requests) == 2

    async def all_are_answered() -> bool:
        return all(prometheus.query(one) for one in requests)

    assert await eventually(all_are_answered, "the autoscalers' queries find something")


def test_all_dashboards_are_tested_and_use_documented_metrics() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert sorted(one.stem for one in FOLDER.glob("*.json")) == DASHBOARDS
    used = {
        re.sub(r"_(count|sum|bucket)$", "", metric)
        for name in DASHBOARDS
        for query in queries(name)
        for metric in re.findall(r"(?:headrace|faststream)_\w+", query)
    }
    assert [metric for metric in sorted(used) if f"`{metric}`" not in page] == []


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_declares_the_variables_that_it_uses(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text()
    dashboard = json.loads(text)
    declared = {one["name"] for one in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard["panels"])))
    assert used - {"__rate_interval"} == declared
