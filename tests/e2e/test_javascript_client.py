"""`@headrace/client` with real gateways: one of them dies, and the page's examples run."""

import asyncio
import json
from pathlib import Path

from headrace.model.events import Json
from tests.architecture.tree import ROOT
from tests.support import client_package, javascript
from tests.support.document import blocks, examples
from tests.support.fleet import Fleet
from tests.support.stored_log import lines_of
from tests.support.waiting import until

_CHECK = ("--noEmit", "--checkJs", "--strict", "--skipLibCheck", "--module", "nodenext")
_COUNT = 150


async def test_a_killed_gateways_streams_go_on_at_the_other_without_loss_or_repetition(
    fleet: Fleet, client_app: Path, tmp_path: Path
) -> None:
    whole = "".join(f"{number} " for number in range(1, _COUNT + 1))
    gate, pid = tmp_path / "gate", fleet.stack.pids("gateway")[0]
    urls = [f"{gateway}/v1/agents/counter" for gateway in fleet.gateways]
    order = {"urls": urls, "text": f"{_COUNT} 20", "gate": str(gate)}
    running = asyncio.create_task(
        asyncio.to_thread(javascript.run, "survive.mjs", order, client_app)
    )
    await asyncio.to_thread(until, lambda: gate.exists() or running.done(), "both are under way")
    fleet.stack.kill("gateway", 0)
    seen: Json = await running
    fleet.stack.until_restarted("gateway", 0, pid)
    lines = await lines_of(fleet.nats_url, "counter", seen["task"])
    events = [event["json"] for event in seen["events"]]
    assert [_generation(event) for event in events] == list(range(1, len(lines) + 1))
    assert [_generation(event["json"]) for event in seen["resumed"]] == list(
        range(11, len(lines) + 1)
    )
    frames = seen["frames"]
    assert "".join(frame.get("delta", "") for frame in frames) == whole
    assert seen["messages"][-1]["content"] == whole
    kinds = [frame["type"] for frame in frames]
    assert [kinds.count(kind) for kind in ("RUN_STARTED", "TEXT_MESSAGE_START")] == [1, 1]
    assert kinds[-1] == "RUN_FINISHED"


def _generation(event: Json) -> int:
    [body] = event.values()
    return int(body["metadata"]["headrace.generation"])


async def test_every_example_of_the_page_prints_what_it_states(
    fleet: Fleet, client_app: Path
) -> None:
    shown = examples(ROOT / "docs" / "javascript.md", "js")
    names = [f"example_{number}.mjs" for number in range(len(shown))]
    for name, (code, _) in zip(names, shown, strict=True):
        text = code.replace("http://127.0.0.1:8080", fleet.gateways[0])
        (client_app / name).write_text(text)
    node, compiler = javascript.program("node"), "node_modules/typescript/bin/tsc"
    client_package.run(client_app, node, compiler, *_CHECK, *names)
    outputs = [client_package.run(client_app, node, name) for name in names]
    assert outputs == [output for _, output in shown]
    assert len(outputs) == 3


async def test_the_examples_of_the_protocols_pages_are_answered(
    fleet: Fleet, client_app: Path
) -> None:
    """The pages on AG-UI and on WebSocket: the official client, and none."""
    more = {
        "agui": "console.log(agent.messages.map((one) => one.role).join());\n",
        "websocket": "socket.addEventListener('message', ({ data }) => "
        "JSON.parse(data).end && socket.close());\n",
    }
    found = {}
    for page, ending in more.items():
        [block] = blocks(ROOT / "docs" / f"{page}.md", "js")
        code = block.code.replace("127.0.0.1:8080", fleet.gateways[0].removeprefix("http://"))
        (client_app / f"{page}_page.mjs").write_text(code + ending)
        # Node.js 20 has WebSocket behind an option, which later ones take, too.
        node = (javascript.program("node"), "--experimental-websocket")
        found[page] = client_package.run(client_app, *node, f"{page}_page.mjs").splitlines()
    assert found["agui"] == ["user,assistant"]
    *events, end = map(json.loads, found["websocket"])
    assert end == {"id": 1, "end": True}
    assert len(events) > 3
    assert all(set(one) == {"id", "cursor", "event"} for one in events)


def test_connections_that_end_in_other_ways(client_app: Path) -> None:
    client_package.run(client_app, javascript.program("node"), "--test", "client.test.mjs")
