"""A client leaves a run amid a message, and comes back to it by another gateway."""

from pathlib import Path

import pytest

from headrace.model.events import Json
from tests.support import javascript
from tests.support.fleet import Fleet


@pytest.mark.usefixtures("extra_worker")
@pytest.mark.parametrize("form", ["cursor", "join"])
@pytest.mark.parametrize("there_and_back", [(0, 1), (1, 0)])
async def test_it_holds_the_same_as_if_it_had_stayed(
    fleet: Fleet, client_app: Path, tmp_path: Path, form: str, there_and_back: tuple[int, int]
) -> None:
    gate = f"{tmp_path / 'gate'}"
    url, other = (f"{fleet.gateways[at]}/v1/agents/gated/ag-ui" for at in there_and_back)
    order = {"url": url, "other": other, "text": gate, "after": 1, "form": form, "gate": gate}
    held: Json = javascript.run("attach.mjs", order, client_app)
    assert (held["failure"], held["warnings"]) == (None, [])
    assert held["left"][-1]["content"] == "before "
    assert [message["content"] for message in held["messages"]] == [gate, "before after"]
    assert held["messages"][-1]["id"] == held["left"][-1]["id"]
    kinds = [event["type"] for event in held["events"]]
    assert (kinds[0], kinds[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert held["events"][0]["runId"] == held["runId"]
    assert ("MESSAGES_SNAPSHOT" in kinds) == (form == "join")
    deltas = [event["delta"] for event in held["events"] if "delta" in event]
    assert deltas[-1] == "after"
