"""The example of an application that asks an agent about each event."""

from faststream.nats import TestNatsBroker

from tests.support.examples import example
from tests.support.fake_gateway import ScriptedResponse, answering

SEND = "/v1/agents/orders/message:send"
ORDER = {"id": "7", "article": "nails", "quantity": 5}
TASK = {
    "id": "t1",
    "contextId": "ann",
    "status": {"state": "TASK_STATE_COMPLETED"},
    "artifacts": [{"artifactId": "a", "parts": [{"text": "in stock"}]}],
}


async def test_a_question_about_an_order_is_sent_and_the_answer_published() -> None:
    with answering(**{SEND: ScriptedResponse(body={"task": TASK})}) as gateway:
        module = example("faststream_orders", GATEWAY=gateway.url)
        async with TestNatsBroker(module.broker) as broker:
            published = await broker.request(ORDER, "orders.created", timeout=60)
        [request] = gateway.asked
    assert await published.decode() == {"id": "7", "state": "completed", "answer": "in stock"}
    message = (request.body or {})["message"]
    assert message["parts"] == [{"data": ORDER}]
