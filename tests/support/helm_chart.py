"""The Helm chart, rendered by Helm's own library."""

from functools import cache
from typing import Any

import pytest
import yaml

from tests.support.compose_file import ROOT

CHART = ROOT / "deploy" / "helm" / "headrace"
RELEASE = "fleet"

type Manifest = dict[str, Any]


def values_of(name: str) -> dict[str, Any]:
    """Return one of the chart's sets of values for tests."""
    found: dict[str, Any] = yaml.safe_load((CHART / "ci" / f"{name}-values.yaml").read_text())
    return found


def render(values: dict[str, Any]) -> list[Manifest]:
    """Return what ``helm template`` makes of the values; the library has no wheel everywhere.

    Raises:
        HelmError: the values do not fit the chart's schema.
    """
    helm = pytest.importorskip("helm_python", reason="Helm's library is for Linux on x86-64")
    with helm.Chart.load(CHART) as chart:
        rendered = chart.render(values=values, name=RELEASE, namespace="prod")
    return [
        found
        for _, text in sorted(rendered.items())
        for found in yaml.safe_load_all(text)
        if found is not None
    ]


@cache
def rendered(name: str) -> tuple[Manifest, ...]:
    """Return the manifests of one of the chart's sets of values."""
    return tuple(render(values_of(name)))


def of_kind(name: str, kind: str) -> dict[str, Manifest]:
    """Return the manifests of one kind, by the component that they are for."""
    return {
        one["metadata"]["name"].removeprefix(f"{RELEASE}-"): one
        for one in rendered(name)
        if one["kind"] == kind
    }
