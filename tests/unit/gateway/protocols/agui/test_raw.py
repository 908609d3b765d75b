"""The log's own events, for clients that asked for them."""

from headrace.model.parts import text_part
from tests.support.agui.client_rules import Client
from tests.support.agui.logs import GIVEN, AguiLog


def test_each_event_of_the_log_leads_what_it_becomes() -> None:
    log = AguiLog.started(forwardedProps={"headrace": {"raw": True}})
    log.show(text_part("Hello", "b"), artifact="b").end()
    agui_events = log.agui_events()
    events = [event for entry in log.parsed() for event in entry.events]
    assert [event["event"] for event in agui_events if event["type"] == "RAW"] == events
    assert [event["type"] for event in agui_events][:2] == ["RUN_STARTED", "RAW"]
    assert agui_events[-1]["type"] == "RUN_FINISHED"
    assert Client(GIVEN).take_all([frame.event for frame in log.frames()]).ended


def test_who_did_not_ask_gets_none() -> None:
    for props in (None, {}, {"headrace": True}, {"headrace": {"raw": "yes"}}):
        agui_events = AguiLog.started(forwardedProps=props).end().agui_events()
        assert "RAW" not in {event["type"] for event in agui_events}
