from headrace.model import a2ui, parts
from headrace.model.events import STEP, Json
from headrace.model.step import COMPLETED, FAILED, STARTED, ShownStep
from headrace.model.task import WORKING
from headrace_gateway.protocols.agui.fold import UNREADABLE
from tests.support.agui.logs import AguiLog, hinted


def agui_events(log: AguiLog) -> list[Json]:
    return log.end().agui_events()[1:-1]


def test_a_file_is_an_activity_that_holds_the_artifact() -> None:
    part = parts.file_part(b"abc", "a.txt", "text/plain")
    assert agui_events(AguiLog.started().show(part, artifact="f-1")) == [
        {
            "type": "ACTIVITY_SNAPSHOT",
            "messageId": "f-1",
            "activityType": "artifact",
            "content": {"artifactId": "f-1", "parts": [part]},
            "replace": True,
        }
    ]


def test_what_is_appended_to_an_artifact_is_a_patch() -> None:
    first, second = parts.data_part({"n": 1}), parts.data_part({"n": 2})
    log = AguiLog.started().show(first, artifact="d-1").show(second, artifact="d-1", append=True)
    assert agui_events(log)[1] == {
        "type": "ACTIVITY_DELTA",
        "messageId": "d-1",
        "activityType": "artifact",
        "patch": [{"op": "add", "path": "/parts/-", "value": second}],
    }


def test_text_of_a_mixed_artifact_is_text_only() -> None:
    log = AguiLog.started().show(parts.text_part("see", "x"), parts.file_part(b"a"), artifact="x")
    events = agui_events(log)
    [activity] = [e for e in events if e["type"] == "ACTIVITY_SNAPSHOT"]
    assert activity["messageId"] == "x-activity"
    assert activity["content"]["parts"] == [parts.file_part(b"a")]
    assert any(e["type"] == "TEXT_MESSAGE_CONTENT" for e in events)


def test_a_notice_is_an_activity() -> None:
    assert agui_events(AguiLog.started().say(parts.notice_part("Searching"))) == [
        {
            "type": "ACTIVITY_SNAPSHOT",
            "messageId": "m-1",
            "activityType": "status",
            "content": {"text": "Searching"},
            "replace": True,
        }
    ]


def test_an_agents_own_activity_is_shown_and_changed() -> None:
    plan = {"agui_block_id": "p-1", "agui_activity_type": "PLAN"}
    log = AguiLog.started().say(hinted(parts.ACTIVITY_SNAPSHOT, {"steps": []}, **plan))
    patch = [{"op": "add", "path": "/steps/-", "value": "one"}]
    events = agui_events(log.say(hinted(parts.ACTIVITY_DELTA, patch, **plan)))
    assert [e["activityType"] for e in events] == ["PLAN", "PLAN"]
    assert events[1]["patch"] == patch


def test_state_is_sent_whole_or_as_a_patch() -> None:
    patch = [{"op": "replace", "path": "/count", "value": 2}]
    log = AguiLog.started().say(hinted(parts.STATE_SNAPSHOT, {"count": 1}))
    assert agui_events(log.say(hinted(parts.STATE_DELTA, patch))) == [
        {"type": "STATE_SNAPSHOT", "snapshot": {"count": 1}},
        {"type": "STATE_DELTA", "delta": patch},
    ]


def test_patches_go_on_from_the_clients_own_state() -> None:
    patch = [{"op": "test", "path": "/count", "value": 0}, {"op": "remove", "path": "/count"}]
    assert agui_events(AguiLog.started().say(hinted(parts.STATE_DELTA, patch)))[0]["delta"] == patch


def test_a_patch_that_does_not_fit_is_reported_and_changes_nothing() -> None:
    wrong = [{"op": "add", "path": "/a", "value": 1}, {"op": "remove", "path": "/missing"}]
    right = [{"op": "test", "path": "", "value": {"count": 0}}]
    log = AguiLog.started().say(hinted(parts.STATE_DELTA, wrong))
    events = agui_events(log.say(hinted(parts.STATE_DELTA, right)))
    assert events[0]["type"] == "CUSTOM"
    assert events[0]["name"] == UNREADABLE
    assert "missing" in events[0]["value"]["reason"]
    assert events[1] == {"type": "STATE_DELTA", "delta": right}


def doubling(times: int) -> list[Json]:
    return [{"op": "copy", "from": "/l", "path": "/l/-"}] * times


def test_a_patch_that_would_make_much_more_of_the_state_is_reported_and_changes_nothing() -> None:
    log = AguiLog.started().say(hinted(parts.STATE_SNAPSHOT, {"l": [0]}))
    log.say(hinted(parts.STATE_DELTA, doubling(25)))
    right = [{"op": "test", "path": "", "value": {"l": [0]}}]
    events = agui_events(log.say(hinted(parts.STATE_DELTA, right)))
    assert [event["type"] for event in events] == ["STATE_SNAPSHOT", "CUSTOM", "STATE_DELTA"]
    assert events[1]["name"] == UNREADABLE
    assert events[1]["value"]["reason"] == "copies more than 1000000 bytes of JSON"


def test_what_patches_copy_is_bounded_for_all_activities_of_a_run_together() -> None:
    log = AguiLog.started()
    for n in range(40):
        name = {"agui_block_id": f"p-{n}", "agui_activity_type": "PLAN"}
        log.say(hinted(parts.ACTIVITY_SNAPSHOT, {"l": [0]}, **name))
        log.say(hinted(parts.ACTIVITY_DELTA, doubling(14), **name))
    events = agui_events(log)
    kinds = [event["type"] for event in events]
    assert kinds.count("ACTIVITY_SNAPSHOT") == 40
    assert 0 < kinds.count("ACTIVITY_DELTA") < 20
    refused = [event for event in events if event.get("name") == UNREADABLE]
    assert len(refused) == 40 - kinds.count("ACTIVITY_DELTA")
    assert {event["value"]["reason"] for event in refused} == {
        "copies more than 1000000 bytes of JSON"
    }


def test_an_artifact_may_grow_beyond_what_a_patched_activity_may() -> None:
    log = AguiLog.started().show(parts.data_part({"n": 0}), artifact="d-1")
    part = parts.data_part({"text": "x" * 300_000})
    for _ in range(5):
        log.show(part, artifact="d-1", append=True)
    assert [e["type"] for e in agui_events(log)] == ["ACTIVITY_SNAPSHOT"] + ["ACTIVITY_DELTA"] * 5


def test_steps_begin_once_and_end() -> None:
    log = AguiLog.started().say(hinted(parts.STEP_STARTED, agui_step_name="plan"))
    log.say(hinted(parts.STEP_FINISHED, agui_step_name="plan"))
    log.say(hinted(parts.STEP_FINISHED, agui_step_name="plan"))
    log.say(hinted(parts.STEP_STARTED, agui_step_name="act"))
    assert [(e["type"], e["stepName"]) for e in agui_events(log)] == [
        ("STEP_STARTED", "plan"),
        ("STEP_FINISHED", "plan"),
        ("STEP_STARTED", "act"),
        ("STEP_FINISHED", "act"),
    ]


def test_a_recorded_step_begins_with_its_start_or_with_its_record() -> None:
    log = AguiLog.started()
    shown = [
        ShownStep("plan", STARTED),
        ShownStep("plan", COMPLETED, 0.2),
        ShownStep("act", FAILED),
    ]
    for metadata in [*(step.metadata() for step in shown), {STEP: "malformed"}]:
        log.append([log.status(WORKING, metadata=metadata)], state=WORKING)
    assert [(e["type"], e["stepName"]) for e in agui_events(log)] == [
        ("STEP_STARTED", "plan"),
        ("STEP_FINISHED", "plan"),
        ("STEP_STARTED", "act"),
        ("STEP_FINISHED", "act"),
    ]


def test_custom_and_raw_events_pass_through() -> None:
    log = AguiLog.started().say(hinted(parts.CUSTOM, [1, None], agui_custom_name="mine"))
    assert agui_events(log.say(hinted(parts.RAW, {"x": 1}, agui_source="model"))) == [
        {"type": "CUSTOM", "name": "mine", "value": [1, None]},
        {"type": "RAW", "event": {"x": 1}, "source": "model"},
    ]


def test_unreadable_events_are_reported_and_do_not_end_the_run() -> None:
    log = AguiLog.started().say({"metadata": {"agui_event_type": "state_snapshot"}})
    events = agui_events(log.show(parts.text_part("still here", "b-1")))
    assert events[0]["value"] == {"generation": 3, "reason": "an event has an invalid shape"}
    assert events[2]["delta"] == "still here"


def surface(*messages: Json) -> Json:
    return parts.surfaces_part([*messages])


def test_a_surface_is_an_activity_that_draws_it_as_it_is() -> None:
    created = a2ui.message(a2ui.CREATE, "form", catalogId="c")
    root = {"id": "root", "component": "Text", "text": {"path": "/n"}}
    drawn = a2ui.message(a2ui.COMPONENTS, "form", components=[root])
    data = a2ui.message(a2ui.DATA, "form", path="/", value={"n": 1})
    changed = a2ui.message(a2ui.DATA, "form", path="/n", value=2)
    log = AguiLog.started().say(surface(created, drawn, data)).say(surface(changed))
    first, second = agui_events(log)
    assert (first["activityType"], first["content"]) == (
        "a2ui-surface",
        {"a2ui_operations": [created, drawn, data]},
    )
    assert second["messageId"] == first["messageId"]
    again = a2ui.message(a2ui.DATA, "form", path="/", value={"n": 2})
    assert second["patch"] == [{"op": "replace", "path": "/a2ui_operations/2", "value": again}]
    emptied = a2ui.message(a2ui.DATA, "form", path="/", value=None)
    more = a2ui.message(a2ui.COMPONENTS, "form", components=[{"id": "x", "component": "Text"}])
    events = agui_events(
        AguiLog.started()
        .say(surface(created))
        .say(surface(data))
        .say(surface(more))
        .say(surface(emptied))
    )
    assert [event["type"][9:] for event in events] == ["SNAPSHOT", "DELTA", "DELTA", "SNAPSHOT"]
    assert events[1]["patch"] == [{"op": "add", "path": "/a2ui_operations/-", "value": data}]
    assert events[2]["patch"] == [
        {"op": "replace", "path": "/a2ui_operations/1", "value": more},
        {"op": "add", "path": "/a2ui_operations/-", "value": data},
    ]
    assert events[3]["content"] == {"a2ui_operations": [created, more]}
    log = AguiLog.started().say(surface(created))
    deleted = a2ui.message(a2ui.DELETE, "form")
    assert agui_events(log.say(surface(deleted)))[1]["content"] == {"a2ui_operations": [deleted]}


def test_a_change_of_an_earlier_runs_surface_is_added_to_it() -> None:
    changed = a2ui.message(a2ui.DATA, "form", path="/n", value=2)
    drawn = a2ui.message(a2ui.COMPONENTS, "form", components=[])
    log = AguiLog.started().say(surface(changed)).say(surface(drawn))
    assert agui_events(log) == [
        {
            "type": "ACTIVITY_DELTA",
            "messageId": "a2ui-surface-form",
            "activityType": "a2ui-surface",
            "patch": [{"op": "add", "path": "/a2ui_operations/-", "value": message}],
        }
        for message in (changed, drawn)
    ]


def test_a_new_attempt_removes_a_surface_and_keeps_an_earlier_runs() -> None:
    created = a2ui.message(a2ui.CREATE, "new", catalogId="c")
    changed = a2ui.message(a2ui.DATA, "old", path="/n", value=2)
    log = AguiLog.started().say(surface(created, changed))
    log.begin_attempt()
    [removed] = [e for e in agui_events(log)[3:] if e["type"] == "ACTIVITY_SNAPSHOT"]
    assert removed["content"] == {"a2ui_operations": [a2ui.message(a2ui.DELETE, "new")]}


def test_what_is_no_message_of_a2ui_is_left_out() -> None:
    [event] = agui_events(AguiLog.started().say(parts.surfaces_part([{"createSurface": {}}])))
    assert (event["type"], event["name"]) == ("CUSTOM", UNREADABLE)
