"""The official client leaves a run amid a message, and comes back to it by another gateway."""

import pytest

from headrace.events import Json
from tests.support import javascript
from tests.support.fleet import Fleet

COUNT = 60
WHOLE = "".join(f"{number} " for number in range(1, COUNT + 1))


@pytest.mark.parametrize("form", ["cursor", "join"])
@pytest.mark.parametrize("there_and_back", [(0, 1), (1, 0)])
async def test_it_holds_the_same_as_if_it_had_stayed(
    fleet: Fleet, form: str, there_and_back: tuple[int, int]
) -> None:
    url, other = (f"{fleet.gateways[at]}/v1/agents/counter/ag-ui" for at in there_and_back)
    order = {"url": url, "other": other, "text": f"{COUNT} 20", "after": 7, "form": form}
    held: Json = javascript.run("attach.mjs", order)
    assert (held["failure"], held["warnings"]) == (None, [])
    # It leaves behind the seventh; what came in one piece with that was read, too.
    assert held["left"][-1]["content"].startswith("1 2 3 4 5 6 7 ")
    assert WHOLE.startswith(held["left"][-1]["content"])
    assert [message["content"] for message in held["messages"]] == [f"{COUNT} 20", WHOLE]
    assert held["messages"][-1]["id"] == held["left"][-1]["id"]
    kinds = [event["type"] for event in held["events"]]
    assert (kinds[0], kinds[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert held["events"][0]["runId"] == held["runId"]
    assert ("MESSAGES_SNAPSHOT" in kinds) == (form == "join")
    deltas = [event["delta"] for event in held["events"] if "delta" in event]
    assert len(deltas) < COUNT
