"""The timeline of any log: whole, in order, and of the same content as its Task."""

from hypothesis import given

from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.task import WORKING, TaskKey
from headrace.model.timeline import END, START, TIMELINE, TimelineFold
from tests.support.legal_logs import LegalLog, legal_logs

KEY = TaskKey("t", "agent", "0-" + "0" * 32)


def with_timeline(log: LegalLog, most: int | None = None) -> Json:
    """Return the log's Task with its timeline."""
    fold = TaskFold()
    entries = log.parsed()
    timeline = TimelineFold(log.generation)
    for entry in entries:
        fold.apply_entry(entry)
        timeline.read(entry)
    return timeline.shown_in(fold.task(), most)


def messages_of(entries: list[Json]) -> list[Json]:
    """Return what was said, in order, without a current status's own message."""
    return [one.get("message") or one["status"]["message"] for one in entries if has_message(one)]


def has_message(entry: Json) -> bool:
    return "message" in entry or "message" in entry["status"]


def words(messages: list[Json], role: str) -> list[str]:
    found = [one for one in messages if one.get("role") == role]
    return ["".join(part.get("text", "") for part in one["parts"]) for one in found]


@given(legal_logs())
def test_a_timeline_is_in_order_and_says_what_the_task_says(log: LegalLog) -> None:
    task = with_timeline(log)
    entries = task["metadata"][TIMELINE]
    places = [one["generation"] for one in entries]
    assert places == sorted(set(places))
    assert all(1 <= place <= log.generation for place in places)
    history = list(task.get("history", ()))
    if (current := task["status"].get("message")) is not None:
        history.append(current)
    said = messages_of(entries)
    assert words(said, "ROLE_USER") == words(history, "ROLE_USER")
    # The history joins pieces of one message also where another one came in between.
    texts = ["".join(words(one, "ROLE_AGENT")) for one in (said, history)]
    assert sorted(texts[0]) == sorted(texts[1])
    for artifact in task.get("artifacts", ()):
        metadata = artifact["metadata"]
        assert 1 <= metadata[START] <= metadata.get(END, log.generation) <= log.generation


@given(legal_logs())
def test_the_latest_entries_are_the_end_of_all(log: LegalLog) -> None:
    every = with_timeline(log)["metadata"][TIMELINE]
    assert with_timeline(log, 2)["metadata"][TIMELINE] == every[-2:]
    assert with_timeline(log, 0)["metadata"][TIMELINE] == []


def test_a_new_attempt_leaves_out_what_the_last_one_had_not_kept() -> None:
    log = LegalLog(KEY)
    log.submit("hello")
    log.begin_attempt()
    said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "lost"}]}
    log.append([log.status(WORKING, said)])
    log.append([log.chunk("a", "lost")])
    log.begin_attempt()
    task = with_timeline(log)
    entries = task["metadata"][TIMELINE]
    assert words(messages_of(entries), "ROLE_AGENT") == []
    assert words(messages_of(entries), "ROLE_USER") == ["hello"]
    assert entries[-1]["generation"] == log.generation
    assert "artifacts" not in task
