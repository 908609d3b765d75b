"""What has to change together with the range of log versions that a release reads."""

import re
from typing import get_args

from headrace.model.entry import NEXT_VERSION, READABLE, Stamp, read_stamp
from headrace.model.errors import UndecodableMessage
from headrace.settings import BusSettings
from headrace_task_state.store_redis.store import SHAPE
from tests.architecture.tree import ROOT

SHAPES = (("11", ("2", "3")), ("12", ("2", "3")))
"""Each version of the view with the log versions that its releases read. Add a line, never change
one: entries that an older release could not read are missing in its view, so one that reads more
of them has to build a view of its own, under a higher `SHAPE`."""

STAMP = Stamp("log0", 1, "writer", "TASK_STATE_WORKING", 1)


def is_read_at_once(version: str) -> bool:
    """Return whether entries of `version` are read without parsing each of their headers."""
    headers = STAMP.headers(version)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    try:
        return read_stamp("events", f"NATS/1.0\r\n{lines}\r\n".encode(), dict) == STAMP
    except UndecodableMessage:
        return False


def test_a_release_that_reads_other_versions_builds_a_view_of_its_own() -> None:
    assert SHAPES[-1] == (SHAPE, READABLE)


def test_the_views_versions_only_rise() -> None:
    shapes = [int(shape) for shape, _ in SHAPES]
    assert shapes == sorted(set(shapes))


def test_exactly_the_versions_of_the_range_are_read_from_raw_headers() -> None:
    assert tuple(filter(is_read_at_once, map(str, range(100)))) == READABLE


def test_every_version_of_the_range_may_be_written() -> None:
    assert get_args(BusSettings.model_fields["log_version"].annotation) == READABLE


def test_the_guide_to_upgrades_names_the_range() -> None:
    guide = (ROOT / "docs" / "design" / "log-versions.md").read_text()
    [stated] = re.findall(r"The\s+current\s+range\s+is\s+(\d+) to (\d+)", guide)
    assert stated == READABLE
    assert re.findall(r"HEADRACE_LOG_VERSION=(\d+)", guide) == [NEXT_VERSION]


def test_the_guide_to_upgrades_names_the_views_version() -> None:
    guide = (ROOT / "docs" / "design" / "log-versions.md").read_text()
    assert re.findall(r"The view of this release\s+has\s+version\s+(\d+)", guide) == [SHAPE]
