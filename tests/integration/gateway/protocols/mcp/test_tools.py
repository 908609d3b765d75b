"""The tools that a caller is shown are the agents that it can call."""

from pathlib import Path

import httpx

from headrace_gateway.settings import GatewaySettings
from tests.support.credentials import ANN, Person, write
from tests.support.doors.mcp import client, text_of
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports

LIMITED = Person("acme", "limited", ("some",))
ROLES = """
[[role]]
name = "some"
agents = ["choosy", "terse", "demanding"]
"""


async def test_an_agent_is_a_tool_for_callers_with_its_credentials_and_roles(
    settings: GatewaySettings, fleet: ScriptedFleet, tmp_path: Path
) -> None:
    assert fleet.working
    file = write(tmp_path / "credentials.toml", ANN, LIMITED, head=ROLES)
    update = {"credentials": file, "http_port": ports.pick(), "grpc_port": 0}
    async with (
        running(settings.model_copy(update=update)) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
    ):

        async def shown(headers: dict[str, str]) -> set[str]:
            asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            answer = await http.post("/mcp", json=asked, headers=headers)
            return {tool["name"] for tool in answer.json()["result"]["tools"]}

        assert await shown(ANN.bearer) == {
            *("ask", "assistant", "bare", "choosy", "either", "patient", "terse"),
        }
        assert await shown({"X-Partner-Key": ANN.token}) == {"either", "partners"}
        assert await shown(LIMITED.bearer) == {"choosy", "terse"}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert (await http.post("/mcp", json=asked)).status_code == httpx.codes.UNAUTHORIZED


async def test_a_bare_message_is_a_result(gateway: str, fleet: ScriptedFleet) -> None:
    assert fleet.working
    async with client(gateway) as one:
        result = await one.call_tool("bare", {"message": "hello"})
    assert (text_of(result), result.is_error) == ("bare hello", False)
