"""Letters about old messages, which JetStream has forgotten; and letters without room."""

from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

import headrace.tasks.dead_letters
from headrace.model.messages import DeadLetter
from headrace_task_state.projector import dead_letters
from headrace_task_state.projector.dead_letters import DeadLetters
from tests.support.legal_logs import LegalLog
from tests.support.task_states import TaskStates, new_key


def letter(sequence: int) -> DeadLetter:
    """Return a letter about a message of long ago."""
    return DeadLetter(
        reason="no entry", subject="s", sequence=sequence, at="2026-01-01T00:00:00+00:00"
    )


async def test_letters_that_were_sent_are_not_sent_again_when_a_range_is_applied_anew(
    fleet: TaskStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By another header's name, JetStream recognises none of them.
    for module in (dead_letters, headrace.tasks.dead_letters):
        monkeypatch.setattr(module, "MESSAGE_ID", "Some-Id")
    bus = fleet.bus
    for last in (3, 5):
        sender = DeadLetters(bus, bus.streams.events(0))
        for sequence in range(1, last + 1):
            await sender.send(letter(sequence))
        state = (await bus.js.stream_info(bus.streams.dead)).state
        assert state.messages == last
    other = DeadLetters(bus, bus.streams.events(1))
    await other.send(letter(1))
    assert (await bus.js.stream_info(bus.streams.dead)).state.messages == 6


async def test_a_full_stream_of_letters_does_not_stop_the_view(
    fleet: TaskStates, caplog: pytest.LogCaptureFixture
) -> None:
    bus, log = fleet.bus, LegalLog(new_key())
    config = (await bus.js.stream_info(bus.streams.dead)).config
    await bus.js.update_stream(replace(config, max_bytes=1))
    before = dropped("entry")
    await bus.js.publish(bus.subjects.event(new_key()), b"no entry")
    log.submit("hello")
    await fleet.store(log)
    await fleet.start()
    assert log.key.task in await fleet.listed()
    assert "there is no room for a dead letter" in caplog.text
    assert dropped("entry") == before + 1
    assert (await bus.js.stream_info(bus.streams.dead)).state.messages == 0


def dropped(kind: str) -> float:
    """Return how many letters of the kind this process had no room for."""
    found = REGISTRY.get_sample_value("headrace_dead_letters_dropped_total", {"kind": kind})
    assert found is not None
    return found
