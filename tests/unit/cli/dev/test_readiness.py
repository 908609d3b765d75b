import pytest

from headrace_cli.dev.readiness import until_ready
from headrace_cli.failures import CannotStart
from tests.support.fake_gateway import ScriptedResponse, answering

READY = ScriptedResponse(body={"status": "ok"})
NO_TASKS = ScriptedResponse(body={"tasks": []})
TASKS = "/v1/agents/a/tasks?pageSize=1"


def agents(*names: str) -> ScriptedResponse:
    return ScriptedResponse(body={"agents": [{"id": name, "available": True} for name in names]})


async def test_agents_that_still_come_are_waited_for() -> None:
    script: dict[str, ScriptedResponse | list[ScriptedResponse]] = {
        "/readyz": READY,
        "/v1/agents": [
            ScriptedResponse(503),
            agents(),
            agents("a"),
            agents("a", "b"),
            agents("a", "b"),
        ],
        TASKS: NO_TASKS,
    }
    with answering(**script) as gateway:
        await until_ready([gateway.url], with_agents=True, timeout=60)
        assert sum(question.path == "/v1/agents" for question in gateway.asked) == 5


async def test_gateways_that_do_not_agree_yet_are_not_ready() -> None:
    ahead = {"/readyz": READY, "/v1/agents": agents("a", "b"), TASKS: NO_TASKS}
    behind = {"/readyz": READY, "/v1/agents": agents("a"), TASKS: NO_TASKS}
    with (
        answering(**ahead) as one,
        answering(**behind) as two,
        pytest.raises(CannotStart, match="the gateways to agree on the agents"),
    ):
        await until_ready([one.url, two.url], with_agents=True, timeout=3)


@pytest.mark.parametrize(
    ("script", "missing"),
    [
        ({"/readyz": ScriptedResponse(503)}, "/readyz"),
        ({"/readyz": READY, "/v1/agents": agents()}, "an agent at"),
        ({"/readyz": READY, "/v1/agents": agents("a"), TASKS: ScriptedResponse(503)}, "task state"),
    ],
)
async def test_missing_parts_are_reported(
    script: dict[str, ScriptedResponse], missing: str
) -> None:
    with (
        answering(**script) as gateway,
        pytest.raises(CannotStart, match=rf"not ready after 2 s; .*{missing}"),
    ):
        await until_ready([gateway.url], with_agents=True, timeout=2)


async def test_without_workers_no_agent_is_waited_for() -> None:
    with answering(**{"/readyz": READY}) as gateway:
        await until_ready([gateway.url], with_agents=False, timeout=60)
