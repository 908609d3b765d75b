"""The benchmark counts whole AG-UI runs only."""

from typing import Any

import orjson
import pytest

from tests.benchmarks.agui_runs import check_events, input_of, run_of
from tests.benchmarks.whole import Broken

type Json = dict[str, Any]

STARTED: Json = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED: Json = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}


def chunk(text: str) -> Json:
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": text}


def body(*events: Json) -> bytes:
    return b"".join(b"data: %b\n\n" % orjson.dumps(event) for event in events)


def test_a_whole_run_counts() -> None:
    assert check_events(body(STARTED, chunk("1 "), chunk("2 "), FINISHED), 2, "r") == 4


@pytest.mark.parametrize(
    "events",
    [
        [STARTED, chunk("1 "), FINISHED],
        [STARTED, chunk("1 "), chunk("2 ")],
        [STARTED | {"runId": "another"}, chunk("1 "), chunk("2 "), FINISHED],
        [STARTED, chunk("1 "), chunk("2 "), {"type": "RUN_ERROR", "message": "No."}],
    ],
    ids=["missing", "no end", "another run", "failed"],
)
def test_a_run_that_is_not_whole_is_broken(events: list[Json]) -> None:
    with pytest.raises(Broken):
        check_events(body(*events), 2, "r")


def test_the_second_run_of_a_thread_repeats_its_messages() -> None:
    first, second = (input_of("t", said) for said in (["1"], ["1", "1 ", "1"]))
    assert [one["role"] for one in second["messages"]] == ["user", "assistant", "user"]
    assert second["messages"][:1] == first["messages"]
    assert (first["threadId"], second["threadId"]) == ("t", "t")
    assert first["runId"] != second["runId"] == run_of("t", ["1", "1 ", "1"])
