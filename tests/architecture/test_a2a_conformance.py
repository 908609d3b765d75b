"""The A2A table of the conformance page names tests that look at what its rows name."""

import re

import pytest

from tests.architecture.named_tests import exists, looked_at
from tests.architecture.tree import ROOT

PAGE = ROOT / "docs" / "conformance.md"
_SCRIPTS = ROOT / "tests" / "e2e" / "javascript"
_SCRIPT = re.compile(r'"(\w+\.mjs)"')
_FILE = re.compile(r"`((?:tests/)?[\w/]*\w+\.py)`")

EVERY_BINDING = "every claim over JSON-RPC, REST and gRPC alike"
SHOWN: dict[str, dict[str, tuple[str, str]]] = {
    EVERY_BINDING: dict.fromkeys(
        ("JSON-RPC", "REST", "gRPC"),
        ("integration/gateway/conftest.py::talk", r"params=\[Rest, Rpc, Grpc\]"),
    ),
    "gRPC": {
        "agents": ("test_the_agent_is_named_in_metadata_or_by_the_cards_tenant", r'"agent-name"'),
        "cursors": (
            "test_each_event_carries_its_cursor_and_a_stream_goes_on_behind_it",
            r"headrace\.cursor(?s:.*)last-event-id",
        ),
        "loss": ("test_a_lost_past_is_reported_in_metadata_before_the_task", r"headrace-recovered"),
        "limits": (
            "test_streams_beyond_the_limit_are_refused_until_one_ends",
            r"RESOURCE_EXHAUSTED",
        ),
        "stopping": (
            "test_streams_and_waiting_calls_end_with_a_reason_when_it_stops",
            r"terminate\(\)(?s:.*)UNAVAILABLE",
        ),
        "stalled clients": (
            "test_a_client_that_takes_nothing_is_cut_off_and_its_task_goes_on",
            r"stall_timeout(?s:.*)stopped reading",
        ),
        "reflection": ("test_reflection_lists_the_services", r"ServerReflectionInfo"),
        "health": ("test_health_states_that_it_serves", r"HealthCheckResponse\.SERVING"),
    },
    "extensions": {
        "extensions": (
            "test_activated_extensions_are_echoed_and_passed_to_the_agent",
            r"headrace\.extensions",
        ),
        "0.3's header": (
            "test_who_activates_in_the_header_of_0_3_is_answered_in_it",
            r'OLD_HEADER = "X-A2A-Extensions"',
        ),
        "capabilities": (
            "test_an_agent_that_offers_no_streams_refuses_them",
            r"does not support streaming",
        ),
        "output modes": (
            "test_the_agent_gets_the_modes_that_a_client_accepts",
            r"acceptedOutputModes",
        ),
    },
    "0.3": {
        "each transport": ("test_a_message_is_answered", r"transport: TransportProtocol"),
        "the official SDK's clients": ("test_a_message_is_answered", r"\bold\(gateway, settings"),
        "shapes": ("test_without_a_version_parts_of_a_kind_are_old", r'\["kind"\]'),
        "absent": ("test_without_a_version_the_method_decides", r'"message/send"'),
        "empty": ("test_an_empty_version_is_0_3", r'"A2A-Version": ""'),
        "cards": ("test_a_card_can_be_read_by_old_clients", r"OldCard\.model_validate"),
        "tenants": (
            "test_a_route_with_a_tenant_goes_to_the_agent_that_it_names",
            r'"/ask/message:send"',
        ),
    },
    "the official Python client": {
        "send": (
            "test_without_streaming_the_answer_is_the_finished_task",
            r"streaming=False",
        ),
        "stream": ("test_a_message_is_streamed_to_its_end", r"status_update"),
        "disconnect and resubscribe": (
            "test_a_client_that_left_subscribes_again",
            r"client\.subscribe\(",
        ),
        "cancel": ("test_a_task_at_work_is_canceled_and_listed", r"client\.cancel_task\("),
        "follow-up": ("test_a_question_is_answered", r"task_id=first\.id"),
        "list": ("test_a_task_at_work_is_canceled_and_listed", r"client\.list_tasks\("),
        "notifications": (
            "test_notifications_are_requested_and_called_off",
            r"create_task_push_notification_config",
        ),
        "extended card": (
            "test_an_extended_card_that_no_caller_can_get_is_reported",
            r"client\.get_extended_agent_card\(",
        ),
        "errors": ("test_errors_are_the_sdks_own", r"pytest\.raises\(TaskNotFoundError\)"),
    },
    "the official JavaScript client": {
        "stream": (
            "test_a_message_is_streamed_and_its_task_read_and_listed",
            r"client\.sendMessageStream\(",
        ),
        "cancel": ("test_a_task_is_canceled_in_mid_stream", r"client\.cancelTask\("),
        "read": (
            "test_a_message_is_streamed_and_its_task_read_and_listed",
            r"client\.getTask\(",
        ),
        "list": (
            "test_a_message_is_streamed_and_its_task_read_and_listed",
            r"client\.listTasks\(",
        ),
    },
    "both official clients": {
        "both official clients": ("test_every_scenario_comes_out_the_same", r'"python": .*"javasc'),
        "send": ("EXPECTED", r'"send": \['),
        "stream": ("EXPECTED", r'"stream": \['),
        "disconnect and resubscribe": ("EXPECTED", r'"resubscribe": \['),
        "cancel": ("EXPECTED", r'"cancel": \['),
        "input-required and follow-up": ("EXPECTED", r'"followUp": \[_INPUT'),
        "push": ("EXPECTED", r'"push": \['),
        "list": ("EXPECTED", r'"list": \['),
        "extended card": ("EXPECTED", r'"extendedCard": \['),
        "errors": ("EXPECTED", r'"errors": \['),
    },
}
"""What a row names, by how it begins, with the test that shows it and what that must look at."""


def rows() -> dict[str, list[str]]:
    """Return what the table's rows name, with the files that show it, by their paths in tests."""
    _, _, section = PAGE.read_text().partition("\n# Conformance: A2A\n")
    _, _, table = section.partition("\n| what | test |\n|---|---|\n")
    found = dict[str, list[str]]()
    for line in table.strip().splitlines():
        named, tests = line.strip("| ").split(" | ")
        found[named] = _paths(tests)
    return found


def _paths(tests: str) -> list[str]:
    """Return the paths of files; one without a folder stands beside the one before it."""
    paths, folder = list[str](), ""
    for path in _FILE.findall(tests):
        whole = path.removeprefix("tests/") if "/" in path else f"{folder}/{path}"
        folder = whole.rpartition("/")[0]
        paths.append(whole)
    return paths


def is_shown(test: str, pattern: str, files: list[str]) -> bool:
    """Tell whether a test of these files looks at what the pattern matches."""
    places = [test] if "::" in test else [f"{file}::{test}" for file in files]
    text = "\n".join(looked_at(place) for place in places if exists(place))
    scripts = [(_SCRIPTS / name).read_text() for name in _SCRIPT.findall(text)]
    return re.search(pattern, "\n".join([text, *scripts])) is not None


def row_of(begin: str) -> str:
    """Return the only row that begins so."""
    [named] = [one for one in rows() if re.match(rf"{re.escape(begin)}(?![\w-])", one)]
    return named


def test_every_row_has_its_claims() -> None:
    assert [row_of(begin) for begin in SHOWN] == list(rows())
    not_named = [
        (begin, claim)
        for begin, claims in SHOWN.items()
        for claim in claims
        if claim not in row_of(begin)
    ]
    assert not_named == []


@pytest.mark.parametrize("begin", SHOWN)
def test_each_item_of_a_row_is_a_claim(begin: str) -> None:
    _, _, items = row_of(begin).rpartition(": ")
    pieces = [one for one in re.split(r"[,;] (?![^(]*\))", items) if one]
    claims = SHOWN[begin]
    assert [one for one in pieces if not any(claim in one for claim in claims)] == []


@pytest.mark.parametrize(
    ("begin", "claim"), [(begin, claim) for begin, claims in SHOWN.items() for claim in claims]
)
def test_a_claim_is_shown_by_a_test_of_its_row(begin: str, claim: str) -> None:
    test, pattern = SHOWN[begin][claim]
    assert is_shown(test, pattern, rows()[row_of(begin)]), (test, pattern)


@pytest.mark.parametrize("file", rows()[EVERY_BINDING])
def test_tests_of_every_binding_talk_over_each(file: str) -> None:
    text = (ROOT / "tests" / file).read_text()
    talking = re.findall(r"^async def test_\w+\((?:[^)]*\b)?talk: Talk\b", text, re.MULTILINE)
    assert len(talking) > 2


@pytest.mark.parametrize(
    ("test", "pattern"),
    [
        ("test_that_nobody_wrote", ""),
        ("test_health_states_that_it_serves", "ServerReflectionInfo"),
        ("unit/none.py::test_a", "."),
    ],
)
def test_what_no_test_looks_at_is_seen(test: str, pattern: str) -> None:
    assert not is_shown(test, pattern or ".", rows()[row_of("gRPC")])
