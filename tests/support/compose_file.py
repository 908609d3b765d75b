"""Read `docker-compose.yml` as Compose does: merge anchors and substitute variables."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"

_VARIABLE = re.compile(r"\$\{(\w+)(?::(?:-([^${}]*)|\?[^${}]*))?\}")
"""The innermost variables: a default may hold others, and behind ``:?`` stands a complaint."""

PASSWORDS = {
    f"HEADRACE_NATS_{user}_PASSWORD": f"password-of-{user.lower()}"
    for user in ("GATEWAY", "TASK_STATE", "TRIGGERS", "WORKER", "OPERATOR")
} | {"HEADRACE_REDIS_PASSWORD": "password-of-valkey"}
"""Variables without a default."""


@dataclass(frozen=True, slots=True)
class ComposeService:
    """What the file says of one service."""

    name: str
    command: list[str]
    image: str
    replicas: int = 1
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    """Files of this project by the path at which the container sees them."""
    healthcheck: list[str] = field(default_factory=list)
    """``CMD`` or ``CMD-SHELL`` and what follows; empty: there is none."""
    build: dict[str, str] = field(default_factory=dict)
    """Context and Dockerfile; empty: the image is somebody else's."""
    grace: int = 10
    """Seconds that it has to end in, once it is told to."""
    secrets: tuple[str, ...] = ()
    """Files that it finds under ``/run/secrets``."""
    depends_on: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()


def load(variables: Mapping[str, str] | None = None) -> dict[str, ComposeService]:
    """Return the file's services by name, `variables` put in.

    Raises:
        KeyError: a variable without a default is not among `variables`.
    """
    given = PASSWORDS | dict(variables or {})
    content = _filled(yaml.safe_load(COMPOSE_FILE.read_text()), given)
    return {name: _service(name, body) for name, body in content["services"].items()}


def _service(name: str, body: dict[str, Any]) -> ComposeService:
    mounts = [volume.split(":") for volume in body.get("volumes", [])]
    return ComposeService(
        name=name,
        command=body.get("command", []),
        image=body["image"],
        replicas=body.get("deploy", {}).get("replicas", 1),
        environment=body.get("environment", {}),
        files={inside: ROOT / outside for outside, inside, *_ in mounts if outside[0] == "."},
        healthcheck=body.get("healthcheck", {}).get("test", []),
        build=body.get("build", {}),
        grace=int(body.get("stop_grace_period", "10s").removesuffix("s")),
        secrets=tuple(body.get("secrets", ())),
        depends_on=tuple(body.get("depends_on", ())),
        networks=tuple(body.get("networks", ())),
        ports=tuple(body.get("ports", ())),
    )


def _filled(node: Any, variables: Mapping[str, str]) -> Any:  # noqa: ANN401  # any YAML
    if isinstance(node, dict):
        return {key: _filled(value, variables) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(value, variables) for value in node]
    while isinstance(node, str) and _VARIABLE.search(node):
        node = _VARIABLE.sub(lambda found: _value(found, variables), node)
    return node


def _value(found: re.Match[str], variables: Mapping[str, str]) -> str:
    name, default = found.groups()
    return variables[name] if default is None else variables.get(name) or default
