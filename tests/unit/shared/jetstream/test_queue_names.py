"""Which queue a consumer of the stream of runs is, by its name and filter."""

import hashlib

import pytest

from headrace.jetstream.durables import _queue_of
from headrace.model.queues import RunQueue
from headrace.settings import BusSettings

SUBJECTS = BusSettings().subjects
LONG = "t" * 200
HASH = hashlib.sha256(LONG.encode()).hexdigest()


@pytest.mark.parametrize(
    ("name", "tenant", "queue"),
    [
        ("agent", "default", RunQueue("agent")),
        (f"agent@{HASH}", LONG, RunQueue("agent", LONG)),
        (f"agent@{HASH}", "another", None),
        ("agent@tenant@high@v@more", "tenant", None),
        ("", "default", None),
    ],
)
def test_the_name_and_the_filter_name_one_queue_or_none(
    name: str, tenant: str, queue: RunQueue | None
) -> None:
    found = {"durable_name": name, "filter_subject": f"{SUBJECTS.prefix}.run.{tenant}.agent.>"}
    assert _queue_of(SUBJECTS, found) == queue
