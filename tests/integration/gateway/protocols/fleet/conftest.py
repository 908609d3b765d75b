"""Gateways of the fleet API that know people by their roles."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from headrace_gateway.settings import GatewaySettings
from headrace_gateway.timing import GatewayTiming
from tests.support.credentials import ANN, Person, write
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.servers import ports

FAQ = Person("acme", "faq", ("faq",))
ONCALL = Person("acme", "on-call", ("on-call",))
OPERATOR = Person("acme", "operator", ("operator",))
ASK_ONCALL = Person("acme", "ask-on-call", ("ask-on-call",))
DEPLOYER = Person("acme", "deployer", ("deployer",))
RELEASER = Person("acme", "releaser", ("releaser",))
_ROLES = """
[[role]]
name = "faq"
agents = ["assistant"]

[[role]]
name = "on-call"
operator = true

[[role]]
name = "ask-on-call"
agents = ["ask"]
operator = true

[[role]]
name = "operator"
operator = true
operations = ["operate"]

[[role]]
name = "deployer"
operator = true
operations = ["route"]

[[role]]
name = "releaser"
operator = true
agents = ["ask"]
operations = ["route"]
"""

_TIMING = GatewayTiming(credentials_interval=0.05)


@dataclass(frozen=True, slots=True)
class RoleGateway:
    """A gateway with a credentials file."""

    http: httpx.AsyncClient
    """A client without credentials."""
    file: Path

    def know(self, *people: Person) -> None:
        """Let the gateway know Ann and `people`, and nobody else."""
        write(self.file, ANN, *people, head=_ROLES)


type OpenRoleGateway = Callable[..., AbstractAsyncContextManager[RoleGateway]]


@pytest.fixture
def open_role_gateway(settings: GatewaySettings, tmp_path: Path) -> OpenRoleGateway:
    """Opens a gateway of the module's fleet that knows Ann and the given people.

    Keywords are further settings.
    """

    @asynccontextmanager
    async def opened(*people: Person, **more: object) -> AsyncIterator[RoleGateway]:
        file = tmp_path / "credentials.toml"
        changed = {"credentials": file, "http_port": ports.pick(), "grpc_port": 0, **more}
        write(file, ANN, *people, head=_ROLES)
        async with (
            running(settings.model_copy(update=changed), timing=_TIMING) as url,
            httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
        ):
            yield RoleGateway(http, file)

    return opened
