"""The documents' pictures are those of their recordings, and load nothing."""

import re
from dataclasses import replace

import pytest

from tests.architecture.tree import ROOT
from tests.pictures import failover, request, sequence, timeline
from tests.pictures.agents import TOKENS

PICTURES = ROOT / "docs" / "pictures"
RECORDING = failover.load(PICTURES / "failover.json")


def test_the_picture_is_the_one_of_the_recording() -> None:
    assert (PICTURES / "failover.svg").read_text() == timeline.drawn(RECORDING)


def test_the_recorded_stream_has_every_token_once() -> None:
    texts = [event.text for event in RECORDING.received if re.fullmatch(r" \d+", event.text)]
    assert texts == [f" {token}" for token in range(1, TOKENS + 1)]
    assert set(timeline.gaps(RECORDING)) == {1}


def test_a_gateway_and_a_worker_were_killed_under_it() -> None:
    assert 0 < RECORDING.gateway_killed < RECORDING.worker_killed < RECORDING.received[-1].at
    assert {event.gateway for event in RECORDING.received} == {0, 1}
    assert {event.worker for event in RECORDING.received} == {0, 1}


async def test_a_failover_is_recorded_again_until_another_worker_takes_over() -> None:
    same = replace(RECORDING, received=[replace(one, worker=0) for one in RECORDING.received])
    taken = iter([same, same, RECORDING])

    async def once() -> failover.Recording:
        return next(taken)

    assert await failover.first_failover(once) is RECORDING
    taken = iter([same] * (failover.TRIES + 1))
    with pytest.raises(AssertionError, match="took its run again"):
        await failover.first_failover(once)
    assert len(list(taken)) == 1


@pytest.mark.parametrize("name", ["request", "resume"])
def test_a_sequence_is_the_one_of_its_recording(name: str) -> None:
    steps = request.load(PICTURES / f"{name}.json")
    assert (PICTURES / f"{name}.svg").read_text() == sequence.of(name, steps)


@pytest.mark.parametrize("name", ["request", "resume"])
def test_a_recorded_client_gets_each_event_once_and_after_it_was_stored(name: str) -> None:
    steps = request.load(PICTURES / f"{name}.json")
    received = [step.what for step in steps if step.receiver == "client"]
    assert received == [f"event {number}" for number in range(1, len(received) + 1)]
    assert [step.at for step in steps] == sorted(step.at for step in steps)
    stored = [step for step in steps if step.receiver == "NATS" and "append" in step.what]
    assert min(step.at for step in steps if step.what == received[-1]) >= stored[-1].at


def test_the_recorded_client_resumes_at_the_other_gateway() -> None:
    steps = request.load(PICTURES / "resume.json")
    [back] = [number for number, step in enumerate(steps) if "Last-Event-ID" in step.what]
    assert {step.sender for step in steps[:back] if step.receiver == "client"} == {"gateway 1"}
    assert {step.sender for step in steps[back:] if step.receiver == "client"} == {"gateway 2"}
    assert "read the log" in {step.what for step in steps[back:]}


@pytest.mark.parametrize(
    "name",
    ["failover", "send", "chat", "request", "resume", "dashboard-fleet", "dashboard-agent"],
)
def test_a_picture_loads_nothing(name: str) -> None:
    picture = (PICTURES / f"{name}.svg").read_text()
    assert picture.startswith("<svg")
    addresses = set(re.findall(r"https?://[^\"'\s<)]+", re.sub(r"<!--.*?-->", "", picture)))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert "<script" not in picture
    assert "@font-face" not in picture
