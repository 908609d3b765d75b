"""What the report of a kit's run is read as."""

from pathlib import Path

from tests.conformance import outcome

REPORT = """<testsuites><testsuite>
<testcase classname="tests.compatibility.core.test_requirements" name="test_must[CORE-1-grpc]"/>
<testcase classname="tests.compatibility.core.test_x.TestX" name="test_it_http_json">
  <failure message="AssertionError: so&#10;and so"/></testcase>
<testcase classname="tests.compatibility.jsonrpc.test_codes.TestCodes" name="test_code">
  <skipped message="why"/></testcase>
<testcase classname="tests.compatibility.agent_card.test_card" name="test_card">
  <error message="broken"/></testcase>
</testsuite></testsuites>"""


def items(folder: Path) -> list[outcome.Item]:
    report = folder / "report.xml"
    report.write_text(REPORT)
    return outcome.read(report)


def test_items_are_named_by_transport_and_outcome(tmp_path: Path) -> None:
    assert [(i.name, i.transport, i.outcome, i.message) for i in items(tmp_path)] == [
        ("test_must[CORE-1-grpc]", "grpc", "passed", ""),
        ("TestX.test_it_http_json", "http_json", "failed", "AssertionError: so"),
        ("TestCodes.test_code", "jsonrpc", "skipped", "why"),
        ("test_card", "other", "failed", "broken"),
    ]


def test_counts_add_up(tmp_path: Path) -> None:
    rows = outcome.counts(items(tmp_path))
    assert rows["all"] == {"passed": 1, "failed": 2, "skipped": 1}
    assert rows["http_json"] == {"passed": 0, "failed": 1, "skipped": 0}
    assert outcome.table(items(tmp_path)).splitlines()[-1].split() == ["all", "1", "2", "1"]
