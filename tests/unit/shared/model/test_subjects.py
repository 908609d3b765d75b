"""Subjects, and whose they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import InvalidName, UndecodableMessage
from headrace.model.subjects import (
    MAX_TOKEN,
    NORMAL,
    Subjects,
    check_agent_name,
    decode_token,
    encode_token,
    is_token,
    stream_of_shard,
)
from headrace.model.task import TaskKey, mint_task_id

# Four bytes of three characters each fit for every character.
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=MAX_TOKEN // 12)


@given(NAMES)
def test_any_name_is_a_token_once_encoded_and_comes_back(name: str) -> None:
    assert is_token(encode_token(name))
    assert decode_token(encode_token(name)) == name


@given(NAMES, NAMES)
def test_different_names_never_share_a_token(one: str, other: str) -> None:
    assert (encode_token(one) == encode_token(other)) == (one == other)


def test_plain_names_stay_readable() -> None:
    assert encode_token("Team-7") == "Team-7"
    assert encode_token("a_b") == "a_5fb"
    assert encode_token("a.b>*") == "a_2eb_3e_2a"


@pytest.mark.parametrize("name", ["", "x" * (MAX_TOKEN + 1), "." * 70, "\ud800"])
def test_a_name_that_makes_no_token_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        encode_token(name)


def test_tokens_that_were_made_of_no_name_are_readable() -> None:
    assert decode_token("a_ff_zz") == "a\ufffd_zz"


@pytest.mark.parametrize("name", ["echo", "a", "0", "A_b-C9", "x" * 64])
def test_agents_may_be_named(name: str) -> None:
    assert check_agent_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "_a", "a.b", "a b", "ä", "a\n", "x" * 65])
def test_agents_may_not_be_named(name: str) -> None:
    with pytest.raises(InvalidName) as refusal:
        check_agent_name(name)
    assert refusal.value.field == "agent"
    assert refusal.value.value == name


@pytest.mark.parametrize("text", ["", "a.b", "*", ">", "a b", "é", "a\n", "x" * (MAX_TOKEN + 1)])
def test_what_could_reach_beyond_its_place_in_a_subject_is_no_token(text: str) -> None:
    assert not is_token(text)


SUBJECTS = Subjects("some.fleet")
KEY = TaskKey("tenant", "agent", "17-" + "a" * 32)

TOKENS = st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True)
KEYS = st.builds(TaskKey, TOKENS, TOKENS, st.integers(0, 1023).map(mint_task_id))


def test_subjects_are_as_the_bus_contract_states() -> None:
    task = KEY.task
    assert SUBJECTS.event(KEY) == f"some.fleet.event.17.tenant.agent.{'a' * 12}.{task}"
    assert SUBJECTS.live(KEY) == f"some.fleet.live.17.tenant.agent.{'a' * 12}.{task}"
    assert SUBJECTS.run(KEY, 3) == f"some.fleet.run.tenant.agent.{task}.3"
    assert SUBJECTS.run(KEY, 3, "high") == f"some.fleet.run.tenant.agent.{task}.3.high"
    assert SUBJECTS.queue("agent") == "some.fleet.queue.agent"
    assert SUBJECTS.control(KEY) == f"some.fleet.control.tenant.agent.{task}"
    assert SUBJECTS.recheck(task) == f"some.fleet.recheck.{task}"
    assert SUBJECTS.state("get") == "some.fleet.state.get"
    assert SUBJECTS.dead("tenant", "agent") == "some.fleet.dead.tenant.agent"


@given(KEYS)
def test_a_log_s_subject_leads_back_to_its_task(key: TaskKey) -> None:
    assert SUBJECTS.key_of_event(SUBJECTS.event(key)) == key
    assert SUBJECTS.key_of_event(SUBJECTS.live(key)) == key


@given(KEYS, st.integers(1, 10**9), st.sampled_from(["high", NORMAL, "low"]))
def test_the_subject_of_a_request_leads_back_to_its_run(
    key: TaskKey, run: int, priority: str
) -> None:
    subject = SUBJECTS.run(key, run, priority)
    assert SUBJECTS.key_of_run(subject) == (key, run)
    assert SUBJECTS.priority_of_run(subject) == priority


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "some.fleet.event.17.tenant.agent",
        f"some.fleet.event.17.tenant.agent.{KEY.task}",
        f"some.fleet.event.17.tenant.agent.{KEY.thread}.{KEY.task}.more",
        "some.fleet.event.17.tenant.agent.no-task-id",
        f"some.fleet.event.17.tenant.agent.{KEY.thread}.no-task-id",
        f"some.fleet.event.17.tenant.agent.{'b' * 12}.{KEY.task}",
        f"some.fleet.event.16.tenant.agent.{KEY.thread}.{KEY.task}",
        f"some.fleet.event.x.tenant.agent.{KEY.thread}.{KEY.task}",
        f"some.fleet.run.17.tenant.agent.{KEY.thread}.{KEY.task}",
        f"other.fleet.event.17.tenant.agent.{KEY.thread}.{KEY.task}",
        # NATS stores what is published on a subject with wildcards.
        f"some.fleet.event.17.*.agent.{KEY.thread}.{KEY.task}",
        f"some.fleet.event.17.>.agent.{KEY.thread}.{KEY.task}",
        f"some.fleet.event.17.tenant.*.{KEY.thread}.{KEY.task}",
        f"some.fleet.event.17.ten:ant.agent.{KEY.thread}.{KEY.task}",
    ],
)
def test_a_subject_that_is_no_log_s_is_recognized(subject: str) -> None:
    with pytest.raises(UndecodableMessage):
        SUBJECTS.key_of_event(subject)


@pytest.mark.parametrize(
    "subject",
    [
        f"some.fleet.run.tenant.agent.{KEY.task}",
        f"some.fleet.run.tenant.agent.{KEY.task}.x",
        f"some.fleet.run.tenant.agent.{KEY.task}.1.urgent",
        f"some.fleet.run.tenant.agent.{KEY.task}.high",
        f"some.fleet.run.tenant.agent.{KEY.task}.٣",
        "some.fleet.run.tenant.agent.no-task-id.1",
        f"some.fleet.event.tenant.agent.{KEY.task}.1",
        f"some.fleet.run.*.agent.{KEY.task}.1",
        f"some.fleet.run.tenant.agent.{KEY.task}.1.urgent.2",
        f"some.fleet.run.tenant.agent.{KEY.task}.1.high.*",
        f"some.fleet.run.tenant.agent.{KEY.task}.1.high.2.3",
        f"some.fleet.run.tenant.>.{KEY.task}.1",
    ],
)
def test_a_subject_that_is_no_run_s_is_recognized(subject: str) -> None:
    with pytest.raises(UndecodableMessage):
        SUBJECTS.key_of_run(subject)


@pytest.mark.parametrize("priority", ["normal", "high", "low"])
def test_the_run_of_a_pinned_task_names_its_version(priority: str) -> None:
    subject = SUBJECTS.run(KEY, 7, priority, "1.2.0")
    assert subject == f"some.fleet.run.tenant.agent.{KEY.task}.7.{priority}.1_2e2_2e0"
    assert SUBJECTS.key_of_run(subject) == (KEY, 7)
    assert SUBJECTS.priority_of_run(subject) == priority


def test_shards_stay_in_their_stream_however_many_there_are() -> None:
    assert [stream_of_shard(shard) for shard in (0, 15, 16, 31, 32)] == [0, 0, 1, 1, 2]
