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


def helm_library() -> Any:  # noqa: ANN401 - a module
    """Return Helm's library; skip the test where it has no wheel."""
    return pytest.importorskip("helm_python", reason="Helm's library is for Linux on x86-64")


def lint_errors(values: dict[str, Any]) -> list[str]:
    """Return what ``helm lint --strict`` says of the chart with the values."""
    errors: list[str] = helm_library().lint(CHART, values, strict=True)["errors"]
    return errors


def installed(values: dict[str, Any]) -> list[Manifest]:
    """Return what ``helm install --dry-run=client`` would install.

    Raises:
        HelmError: it would install nothing.
    """
    with helm_library().Config(storage_driver="memory") as config:
        release = config.install(CHART, RELEASE, values, namespace="prod", dry_run="client")
    return [one for one in yaml.safe_load_all(release["manifest"]) if one is not None]


def render(values: dict[str, Any]) -> list[Manifest]:
    """Return what ``helm template`` makes of the values.

    Raises:
        HelmError: the values do not fit the chart's schema.
    """
    with helm_library().Chart.load(CHART) as chart:
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
