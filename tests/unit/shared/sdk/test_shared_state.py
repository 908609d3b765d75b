"""The state that worker and user interface share: every patch applies on both sides, or on none."""

import logging

import orjson
import pytest

from headrace import Activity, MalformedOutput, State, StateDelta, Surfaces
from headrace.model import parts
from headrace.model.events import Json
from headrace.sdk.shared_state import SharedState
from headrace_worker.blocks import RunIds
from headrace_worker.encoder import Encoder


def rendering(state: SharedState) -> Encoder:
    return Encoder("t", "c", RunIds("t", 1), state=state)


def told(speaker: Encoder, output: State | StateDelta | Surfaces) -> Json:
    [draft] = speaker.drafts(output)
    [part] = orjson.loads(draft.line(1))["statusUpdate"]["status"]["message"]["parts"]
    return {"kind": parts.event_type(part), "data": part["data"]}


def test_a_patch_applies_to_what_the_client_sent() -> None:
    state = SharedState({"recipe": {"title": "Soup"}})
    patch = [{"op": "replace", "path": "/recipe/title", "value": "Stew"}]
    assert told(rendering(state), StateDelta(patch)) == {"kind": "state_delta", "data": patch}
    assert state.now == {"recipe": {"title": "Stew"}}


def test_a_patch_of_which_a_part_does_not_fit_changes_nothing_and_the_state_is_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state = SharedState({"n": 1})
    patch: list[Json] = [
        {"op": "replace", "path": "/n", "value": 2},
        {"op": "remove", "path": "/missing"},
    ]
    with caplog.at_level(logging.WARNING):
        assert told(rendering(state), StateDelta(patch)) == {
            "kind": "state_snapshot",
            "data": {"n": 1},
        }
    assert state.now == {"n": 1}
    assert "'missing' does not exist" in caplog.text


def test_what_the_agent_does_to_its_own_objects_changes_no_state() -> None:
    mine = {"steps": [{"status": "pending"}]}
    state = SharedState()
    speaker = rendering(state)
    speaker.drafts(State(mine))
    mine["steps"][0]["status"] = "done"
    state.now["steps"].clear()
    assert state.now == {"steps": [{"status": "pending"}]}
    added = {"status": "new"}
    speaker.drafts(StateDelta([{"op": "add", "path": "/steps/-", "value": added}]))
    added["status"] = "changed"
    assert state.now["steps"][1] == {"status": "new"}


def test_a_state_that_is_not_json_is_malformed() -> None:
    with pytest.raises(TypeError):
        rendering(SharedState()).drafts(State({"when": object()}))
    with pytest.raises(MalformedOutput):
        rendering(SharedState()).drafts("no emission")  # type: ignore[arg-type]


def test_a_later_attempt_begins_with_what_was_saved() -> None:
    state = SharedState({"n": 1})
    state.replay(parts.state_delta_part([{"op": "add", "path": "/m", "value": 2}]))
    state.replay(parts.state_delta_part([{"op": "remove", "path": "/missing"}]))
    assert state.now == {"n": 1, "m": 2}
    state.replay(parts.state_part([]))
    assert state.now == []


def test_a_patch_that_would_make_much_more_of_the_state_fails_by_the_limits_name() -> None:
    state = SharedState({"l": [0]})
    patch = [{"op": "copy", "from": "/l", "path": "/l/-"}] * 25
    with pytest.raises(MalformedOutput, match="copies more than 1000000 bytes of JSON"):
        told(rendering(state), StateDelta(patch))
    assert state.now == {"l": [0]}


def test_a_state_or_activity_that_is_too_large_fails_by_the_limits_name() -> None:
    large = {"text": "x" * 1_000_000}
    rule = "takes 1000011 bytes of JSON; the limit is 1000000"
    state = SharedState()
    with pytest.raises(MalformedOutput, match=f"the state {rule}"):
        told(rendering(state), State(large))
    assert state.now == {}
    with pytest.raises(MalformedOutput, match=f"the content of activity 'a-1' {rule}"):
        list(rendering(state).drafts(Activity("PLAN", large, "a-1")))


def test_a_patch_that_would_make_too_much_is_not_replayed() -> None:
    state = SharedState({"l": [0]})
    state.replay(parts.state_delta_part([{"op": "copy", "from": "/l", "path": "/l/-"}] * 25))
    assert state.now == {"l": [0]}


def test_a_surface_that_clients_may_have_is_deleted_before_it_is_created() -> None:
    sent = told(
        rendering(SharedState()), Surfaces.draw("s", [{"id": "root", "component": "Text"}], {})
    )
    kinds = [name for message in sent["data"] for name in message if name != "version"]
    assert kinds == ["deleteSurface", "createSurface", "updateComponents", "updateDataModel"]


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        ([{"createSurface": {}}], "Surfaces.messages.0..createSurface.surfaceId: must be a text"),
        (
            [{"updateDataModel": {"surfaceId": "s", "value": "x" * 1_000_000}}],
            "Surfaces.messages: takes 1000\\d+ bytes of JSON; the limit is 1000000",
        ),
    ],
)
def test_what_is_no_message_of_a2ui_is_the_agents_error(messages: list[Json], rule: str) -> None:
    with pytest.raises(MalformedOutput, match=rule):
        rendering(SharedState()).drafts(Surfaces(messages))
