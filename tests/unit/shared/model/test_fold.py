"""The fold of a log into a Task."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model import events
from headrace.model.change import IllFormedEvent, read_artifact, read_change
from headrace.model.events import GENERATION, RETRACTED, Json
from headrace.model.fold import TaskFold
from headrace.model.task import (
    BARE_MESSAGE,
    CANCELED,
    COMPLETED,
    INPUT_REQUIRED,
    SUBMITTED,
    WORKING,
    TaskKey,
)
from tests.support.legal_logs import LegalLog, legal_logs
from tests.support.slow_fold import expected_task

KEY = TaskKey("t", "agent", "0-" + "0" * 32)


def folded(log: LegalLog) -> TaskFold:
    fold = TaskFold()
    for event in log.events():
        fold.apply(event)
    return fold


def begun() -> LegalLog:
    log = LegalLog(KEY)
    log.submit("hello")
    log.begin_attempt()
    return log


def thought(name: str, text: str) -> Json:
    return {"messageId": name, "role": "ROLE_AGENT", "parts": [{"text": text}]}


def texts(messages: list[Json]) -> list[str]:
    return ["".join(part["text"] for part in message["parts"]) for message in messages]


@given(legal_logs())
def test_folds_any_legal_log_as_a2a_states(log: LegalLog) -> None:
    assert folded(log).task() == expected_task(log.events())


@given(legal_logs())
def test_entries_fold_like_their_events(log: LegalLog) -> None:
    fold = TaskFold()
    for entry in log.parsed():
        fold.apply_entry(entry)
    assert fold.task() == folded(log).task()
    assert fold.state == log.state


@given(legal_logs(), st.data())
def test_a_fold_made_in_two_goes_is_the_same(log: LegalLog, data: st.DataObject) -> None:
    history, artifacts, standing = [], [], TaskFold().standing
    all_events = log.events()
    cut = data.draw(st.integers(0, len(all_events)))
    for generation, event in enumerate(all_events[:cut], 1):
        change = read_change(event, generation)
        history += change.history
        artifacts += change.artifacts
        standing.apply(change)
    kept = json.loads(json.dumps([history, artifacts]))
    fold = TaskFold.restored(standing, *kept)
    for event in all_events[cut:]:
        fold.apply(event)
    assert fold.task() == folded(log).task()


@given(legal_logs())
def test_an_artifact_update_changes_no_more_than_its_item(log: LegalLog) -> None:
    for generation, event in enumerate(log.events(), 1):
        if update := event.get("artifactUpdate"):
            item = read_artifact(update, generation)
            change = read_change(event, generation)
            assert change.artifacts == ([] if item is None else [item])
            assert (change.history, change.status, change.answer) == ([], None, None)


def test_a_new_task_shows_the_users_message_and_its_metadata() -> None:
    log = LegalLog(KEY)
    log.submit("hello", {"agui_run": "r"})
    task = folded(log).task()
    assert task["status"]["state"] == SUBMITTED
    assert texts(task["history"]) == ["hello"]
    assert task["metadata"] == {"agui_run": "r", GENERATION: 1}
    assert "artifacts" not in task


def test_chunks_with_equal_metadata_become_one_text() -> None:
    log = begun()
    block = {"agui_block_id": "b"}
    log.append([log.chunk("a", text, block) for text in ("one ", "two ", "three")])
    log.append([log.chunk("a", "", {**block, "agui_block_end": True})])
    [artifact] = folded(log).task()["artifacts"]
    assert artifact["parts"] == [
        {"text": "one two three", "metadata": block},
        {"text": "", "metadata": {**block, "agui_block_end": True}},
    ]


def test_the_current_status_keeps_its_message_and_the_next_one_moves_it() -> None:
    log = begun()
    log.append([log.status(WORKING, thought("m", "first"))])
    task = folded(log).task()
    assert texts([task["status"]["message"]]) == ["first"]
    assert texts(task["history"]) == ["hello"]
    log.append([log.status(WORKING)])
    task = folded(log).task()
    assert "message" not in task["status"]
    assert texts(task["history"]) == ["hello", "first"]


def test_pieces_of_one_message_merge_also_when_blocks_interleave() -> None:
    log = begun()
    for name, text in (("m", "a"), ("n", "x"), ("m", "b"), ("n", "y")):
        log.append([log.status(WORKING, thought(name, text))])
    log.append([log.status(COMPLETED)], state=COMPLETED)
    assert texts(folded(log).task()["history"]) == ["hello", "ab", "xy"]


def test_a_message_id_used_again_in_the_next_run_is_another_message() -> None:
    log = begun()
    for _ in range(2):
        log.append([log.status(WORKING, thought("m", "a"))])
        log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
        log.submit("more")
        log.begin_attempt()
    assert texts(folded(log).task()["history"]) == ["hello", "a", "more", "a", "more"]


def test_a_follow_up_enters_the_history_with_the_next_status() -> None:
    log = begun()
    log.append([log.status(INPUT_REQUIRED, thought("q", "which?"))], state=INPUT_REQUIRED)
    log.submit("this one")
    task = folded(log).task()
    assert texts(task["history"]) == ["hello", "which?"]
    assert texts([task["status"]["message"]]) == ["this one"]
    log.begin_attempt()
    assert texts(folded(log).task()["history"]) == ["hello", "which?", "this one"]


def test_a_new_attempt_discards_what_was_not_checkpointed() -> None:
    log = begun()
    log.append([log.chunk("a", "kept ")], checkpoint=True)
    log.append([log.chunk("a", "lost"), log.chunk("b", "lost")])
    log.append([log.status(WORKING, thought("m", "lost"), {"progress": 9})])
    log.begin_attempt()
    task = folded(log).task()
    [artifact] = task["artifacts"]
    assert artifact["parts"] == [{"text": "kept "}]
    assert texts(task["history"]) == ["hello"]
    assert "progress" not in task["metadata"]


def test_an_artifact_that_a_discarded_attempt_replaced_is_back() -> None:
    log = begun()
    log.append([log.chunk("a", "first run")])
    log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    log.submit("more")
    log.begin_attempt()
    log.append([log.chunk("a", "lost")])
    log.begin_attempt()
    [artifact] = folded(log).task()["artifacts"]
    assert artifact["parts"] == [{"text": "first run"}]


def test_a_retraction_leaves_no_empty_artifact() -> None:
    log = begun()
    body = {"artifactId": "a", "parts": [{"text": ""}]}
    retraction = events.artifact_update(
        KEY.task, log.context, body, metadata={RETRACTED: True}, last_chunk=True
    )
    log.append([retraction])
    task = folded(log).task()
    assert "artifacts" not in task
    assert task["metadata"][GENERATION] == 3


def test_history_length_counts_back_from_the_latest() -> None:
    log = begun()
    for name in ("m", "n", "o"):
        log.append([log.status(WORKING, thought(name, name))])
    log.append([log.status(CANCELED)], state=CANCELED)
    fold = folded(log)
    assert texts(fold.task(2)["history"]) == ["n", "o"]
    assert texts(fold.task(9)["history"]) == ["hello", "m", "n", "o"]
    assert "history" not in fold.task(0)


def test_artifacts_can_be_left_out() -> None:
    log = begun()
    log.append([log.chunk("a", "x")])
    assert "artifacts" not in folded(log).task(include_artifacts=False)


def test_a_bare_message_is_distinguished_from_a_task() -> None:
    log = begun()
    log.append([events.bare_message("c", thought("x", "42"))], state=BARE_MESSAGE)
    fold = folded(log)
    assert fold.state == BARE_MESSAGE
    assert texts([fold.task()["status"]["message"]]) == ["42"]


def test_a_log_without_its_beginning_is_a_task_with_what_is_left() -> None:
    log = begun()
    log.append([log.status(COMPLETED, thought("m", "done"))], state=COMPLETED)
    fold = TaskFold()
    fold.apply_entry(log.parsed()[-1])
    task = fold.task()
    assert (task["id"], task["contextId"]) == (KEY.task, log.context)
    assert task["status"]["state"] == COMPLETED
    assert "history" not in task


def test_a_log_that_began_again_drops_the_previous_one() -> None:
    log = begun()
    log.append([log.chunk("a", "old")])
    fold = folded(log)
    again = begun()
    for event in again.events():
        fold.apply(event)
    assert fold.task() == folded(again).task()


def test_appending_to_an_artifact_that_is_not_there_begins_it() -> None:
    log = begun()
    log.begun.add("a")
    log.append([log.chunk("a", "x")])
    [artifact] = folded(log).task()["artifacts"]
    assert artifact["parts"] == [{"text": "x"}]


def test_what_later_chunks_have_beside_parts_is_kept() -> None:
    fold = folded(begun())
    for artifact, append in (
        ({"artifactId": "a", "name": "n", "metadata": {"x": 1, "y": 1}, "parts": []}, False),
        ({"artifactId": "a", "metadata": {"y": 2}, "parts": [{"text": "t"}]}, True),
    ):
        fold.apply({"artifactUpdate": {"artifact": artifact, "append": append}})
    [artifact] = fold.task()["artifacts"]
    assert artifact == {
        "artifactId": "a",
        "name": "n",
        "metadata": {"x": 1, "y": 2},
        "parts": [{"text": "t"}],
    }


ILL_FORMED: list[Any] = [
    {},
    {"surprise": {}},
    {"statusUpdate": None},
    {"statusUpdate": {"status": {"state": "TASK_STATE_NONSENSE"}}},
    {"statusUpdate": {"status": {"state": []}}},
    {"statusUpdate": {"status": {"state": WORKING, "message": "hi"}}},
    {"statusUpdate": {"status": {"state": WORKING, "message": {"messageId": []}}}},
    {"statusUpdate": {"status": {"state": WORKING}, "metadata": [1]}},
    {"statusUpdate": {"status": {"state": WORKING}, "taskId": 1}},
    {"artifactUpdate": 7},
    {"artifactUpdate": {"artifact": {"parts": []}}},
    {"artifactUpdate": {"artifact": {"artifactId": "a"}, "taskId": 7}},
    {"artifactUpdate": {"artifact": {"artifactId": "a"}, "metadata": [7]}},
    {"artifactUpdate": {"artifact": {"artifactId": "a", "parts": ["x"]}}},
    {"artifactUpdate": {"artifact": {"artifactId": "a", "parts": [{"text": 1}]}}},
    {"artifactUpdate": {"artifact": {"artifactId": "a", "metadata": "m"}}},
    {"message": {"parts": 1}},
    {"task": {"id": "x"}},
]


@pytest.mark.parametrize("event", ILL_FORMED, ids=json.dumps)
def test_an_ill_formed_event_is_stepped_over_and_counted(event: Json) -> None:
    generation = 1 if "task" in event else 3
    fold = TaskFold() if "task" in event else folded(begun())
    before = fold.task()
    fold.apply(event)
    assert fold.generation == generation
    after = fold.task()
    assert {**after, "metadata": 0} == {**before, "metadata": 0}
    with pytest.raises(IllFormedEvent):
        read_change(event, generation)
    if "artifactUpdate" in event:
        with pytest.raises(IllFormedEvent):
            read_artifact(event["artifactUpdate"], generation)


def test_a_task_event_that_is_not_the_first_begins_nothing() -> None:
    fold = folded(begun())
    before = fold.task()
    fold.apply({"task": {"id": "other", "status": {"state": COMPLETED}}})
    assert {**fold.task(), "metadata": 0} == {**before, "metadata": 0}
