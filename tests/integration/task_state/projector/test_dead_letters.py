"""Letters about old messages, for which JetStream has forgotten that they were sent."""

import pytest

import headrace.tasks.dead_letters
from headrace.model.messages import DeadLetter
from headrace_task_state.projector import dead_letters
from headrace_task_state.projector.dead_letters import DeadLetters
from tests.support.task_states import TaskStates


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
