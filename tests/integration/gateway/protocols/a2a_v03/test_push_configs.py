"""Push notification configs of clients of A2A 0.3: four operations over each transport."""

import grpc.aio
import httpx
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2, a2a_v0_3_pb2_grpc
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import A2AError, TaskNotFoundError

from headrace.jetstream.connection import Bus
from headrace.model.subjects import encode_token
from headrace.model.task import TaskKey, mint_task_id
from headrace.webhooks import TaskWebhook, Webhooks
from headrace_gateway.settings import GatewaySettings
from tests.support.clients.a2a_v03 import TRANSPORTS, A2Av03Client, old
from tests.support.clients.bindings import Json

URL = "https://hooks.example/a?b=c"


@pytest.fixture(params=TRANSPORTS, ids=lambda transport: transport.value)
def transport(request: pytest.FixtureRequest) -> TransportProtocol:
    """Each of 0.3's."""
    found: TransportProtocol = request.param
    return found


async def a_task(client: A2Av03Client) -> str:
    [answer] = await client.send("hello")
    return answer.task.id


async def kept(bus: Bus, task: str, name: str) -> TaskWebhook:
    found = await Webhooks(bus).get(TaskKey("default", "assistant", task), encode_token(name))
    assert found is not None
    return found.webhook


async def test_a_config_is_set_read_and_notified_in_the_version_that_set_it(
    gateway: str, settings: GatewaySettings, transport: TransportProtocol, bus: Bus
) -> None:
    async with old(gateway, settings, transport, "assistant", streaming=False) as client:
        task = await a_task(client)
        made = await client.create_config(task, "mine", URL, token="tok")
        read = await client.get_config(task, "mine")
        with pytest.raises(TaskNotFoundError):
            await client.get_config(task, "another")
        with pytest.raises(A2AError):
            await client.create_config(task, "wrong", "ftp://hooks.example")
        with pytest.raises(TaskNotFoundError):
            await client.create_config(mint_task_id(0), "mine", URL)
    assert (made.task_id, made.id, made.url, made.token) == (task, "mine", URL, "tok")
    assert (read.task_id, read.id, read.url, read.token) == (task, "mine", URL, "")
    webhook = await kept(bus, task, "mine")
    assert (webhook.version, webhook.base) == ("0.3", gateway)


@pytest.mark.parametrize("transport", ["JSONRPC", "GRPC"])
async def test_configs_are_listed_and_deleted(
    gateway: str, settings: GatewaySettings, transport: str
) -> None:
    """Over REST the SDK's client has neither."""
    over = TransportProtocol(transport)
    async with old(gateway, settings, over, "assistant", streaming=False) as client:
        task = await a_task(client)
        for name in ("one", "two"):
            await client.create_config(task, name, URL)
        assert await client.list_configs(task) == ["one", "two"]
        for _ in range(2):
            await client.delete_config(task, "one")
        assert await client.list_configs(task) == ["two"]
        with pytest.raises(TaskNotFoundError):
            await client.list_configs(mint_task_id(0))


async def test_over_rest_they_are_listed_and_deleted_too(
    http: httpx.AsyncClient, gateway: str, settings: GatewaySettings
) -> None:
    del http.headers["A2A-Version"]
    over = TransportProtocol.HTTP_JSON
    async with old(gateway, settings, over, "assistant", streaming=False) as client:
        task = await a_task(client)
        await client.create_config(task, "one", URL)
    configs = f"/v1/agents/assistant/v1/tasks/{task}/pushNotificationConfigs"
    listed = (await http.get(configs)).json()
    assert listed == {
        "configs": [
            {
                "name": f"tasks/{task}/pushNotificationConfigs/one",
                "pushNotificationConfig": {"id": "one", "url": URL},
            }
        ]
    }
    assert (await http.delete(f"{configs}/one")).json() == {}
    assert (await http.get(configs)).json() == {}
    assert (await http.get(f"{configs}/one")).status_code == 404


async def test_one_without_an_id_is_the_one_that_is_read_without(
    http: httpx.AsyncClient, gateway: str, settings: GatewaySettings
) -> None:
    del http.headers["A2A-Version"]
    async with old(
        gateway, settings, TransportProtocol.JSONRPC, "assistant", streaming=False
    ) as client:
        named, nameless = await a_task(client), await a_task(client)
        await client.create_config(named, "only", URL)
    assert (await asked(http, "get", {"id": named}))["pushNotificationConfig"]["id"] == "only"
    config = {"taskId": nameless, "pushNotificationConfig": {"url": URL}}
    await asked(http, "set", config)
    found = await asked(http, "get", {"id": nameless})
    assert found["pushNotificationConfig"]["url"] == URL


async def test_the_id_may_stand_beside_the_config(
    http: httpx.AsyncClient, gateway: str, settings: GatewaySettings
) -> None:
    del http.headers["A2A-Version"]
    over = TransportProtocol.GRPC
    async with old(gateway, settings, over, "assistant", streaming=False) as client:
        task = await a_task(client)
    config = {"config": {"pushNotificationConfig": {"url": URL}}, "configId": "beside"}
    sent = await http.post(f"/v1/tasks/{task}/pushNotificationConfigs", json=config)
    assert sent.json()["name"] == f"tasks/{task}/pushNotificationConfigs/beside"
    async with grpc.aio.insecure_channel(f"127.0.0.1:{settings.grpc_port}") as channel:
        stub = a2a_v0_3_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]  # generated
        request = a2a_v0_3_pb2.CreateTaskPushNotificationConfigRequest(
            parent=f"tasks/{task}", config_id="beside-too"
        )
        request.config.push_notification_config.url = URL
        made = await stub.CreateTaskPushNotificationConfig(request)
    assert made.name == f"tasks/{task}/pushNotificationConfigs/beside-too"


async def test_a_webhook_that_comes_with_a_message_is_notified_in_its_version(
    http: httpx.AsyncClient, bus: Bus
) -> None:
    del http.headers["A2A-Version"]
    message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    config = {"id": "inline", "url": URL}
    params = {"message": message, "configuration": {"pushNotificationConfig": config}}
    task = (await called(http, "message/send", params))["id"]
    assert (await kept(bus, task, "inline")).version == "0.3"
    over_rest = {"message": message, "configuration": {"pushNotificationConfig": config}}
    sent = (await http.post("/v1/message:send", json=over_rest)).json()
    assert (await kept(bus, sent["id"], "inline")).version == "0.3"


async def test_a_webhook_set_anew_in_another_version_is_notified_in_that_version(
    http: httpx.AsyncClient, gateway: str, settings: GatewaySettings, bus: Bus
) -> None:
    async with old(gateway, settings, TransportProtocol.GRPC, "assistant", streaming=False) as one:
        task = await a_task(one)
        await one.create_config(task, "mine", URL)
    configs = f"/v1/agents/assistant/tasks/{task}/pushNotificationConfigs"
    await http.post(configs, json={"id": "mine", "url": URL})
    assert (await kept(bus, task, "mine")).version == "1.0"


async def asked(http: httpx.AsyncClient, operation: str, params: Json) -> Json:
    return await called(http, f"tasks/pushNotificationConfig/{operation}", params)


async def called(http: httpx.AsyncClient, method: str, params: Json) -> Json:
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer: Json = (await http.post("/", json=request)).json()["result"]
    return answer
