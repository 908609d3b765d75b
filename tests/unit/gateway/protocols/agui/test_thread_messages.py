"""A thread's messages: the log's for what its agents emitted, and each once."""

import pytest

from headrace.model import parts
from headrace.model.events import AGUI, Json
from headrace.model.task import TaskKey
from headrace_gateway.protocols.agui.fold import Fold
from headrace_gateway.protocols.agui.thread_messages import ThreadMessages
from headrace_gateway.protocols.agui.view import View
from tests.support.agui.logs import RUN_METADATA, AguiLog


def user(name: str, text: str) -> Json:
    return {"id": name, "role": "user", "content": text}


def run_of(task: str, messages: list[Json], *output: Json) -> View:
    """Return the view after a run that the client began with `messages`."""
    log = AguiLog(TaskKey("t", "agent", task))
    log.submit("hello", {AGUI: RUN_METADATA | {"messages": messages}})
    log.begin_attempt()
    for part in output:
        log.say(part)
    log.end()
    fold = Fold(1)
    for entry in log.parsed():
        fold.read(entry)
    assert fold.view is not None
    return fold.view


def thread_of(*views: View) -> list[Json]:
    thread = ThreadMessages()
    for view in views:
        thread.add(view)
    return list(thread)


def texts(messages: list[Json]) -> list[tuple[str, object]]:
    return [(message["role"], message.get("content")) for message in messages]


FIRST = run_of("0-a", [user("u1", "count")], parts.text_part("1 2 3", "b"))
ANSWER = FIRST.shown()[-1]
CALLED = run_of(
    "0-a",
    [user("u1", "look")],
    parts.tool_call_part("look", {"a": 1}, "call_1"),
    parts.tool_result_part("call_1", "x"),
    parts.text_part("Found.", "b"),
)


@pytest.mark.parametrize("copy", ["1", "", None, "1 2 3 4"])
def test_a_clients_copy_of_an_answer_does_not_replace_the_logs(copy: str | None) -> None:
    cut = {**ANSWER, "content": copy}
    second = run_of("0-b", [user("u1", "count"), cut, user("u2", "go on")])
    assert texts(thread_of(FIRST, second)) == [
        ("user", "count"),
        ("assistant", "1 2 3"),
        ("user", "go on"),
    ]


def test_a_snapshot_of_a_run_has_the_threads_answers_instead_of_copies() -> None:
    thread = ThreadMessages()
    thread.add(FIRST)
    cut = {**ANSWER, "content": "1"}
    second = run_of("0-b", [cut, user("u2", "go on")], parts.text_part("4", "b"))
    assert texts(thread.corrected(second)) == [
        ("assistant", "1 2 3"),
        ("user", "go on"),
        ("assistant", "4"),
    ]


def test_a_users_message_may_be_changed_by_its_client() -> None:
    second = run_of("0-b", [user("u1", "count on"), ANSWER, user("u2", "and?")])
    assert texts(thread_of(FIRST, second))[0] == ("user", "count on")


def test_what_the_agent_itself_sets_replaces_what_it_emitted() -> None:
    shorter = {**ANSWER, "content": "short"}
    second = run_of("0-b", [user("u2", "shorten")], parts.messages_part([shorter]))
    assert texts(thread_of(FIRST, second))[1] == ("assistant", "short")


def renamed(messages: list[Json]) -> list[Json]:
    """Return the messages as of a client that gives them new ids each time."""
    return [{**message, "id": f"new-{at}"} for at, message in enumerate(messages)]


@pytest.mark.parametrize("first", [FIRST, CALLED], ids=["text", "tool"])
def test_a_conversation_that_is_sent_again_under_other_ids_is_the_threads(first: View) -> None:
    sent = [*renamed(first.shown()), user("u2", "and?")]
    thread = thread_of(first, run_of("0-b", sent, parts.text_part("More.", "b")))
    assert texts(thread) == [*texts(first.shown()), ("user", "and?"), ("assistant", "More.")]
    assert [message["id"] for message in thread[: len(first.messages)]] == list(first.messages)


def test_a_message_like_an_earlier_one_is_another_message() -> None:
    again = run_of("0-b", [user("u2", "count")], parts.text_part("1 2 3", "b"))
    assert texts(thread_of(FIRST, again)) == [("user", "count"), ("assistant", "1 2 3")] * 2


def test_a_conversation_that_differs_from_the_thread_is_added() -> None:
    sent = [*renamed([user("u1", "count"), {**ANSWER, "content": "other"}]), user("u2", "and?")]
    assert len(thread_of(FIRST, run_of("0-b", sent))) == 5


def test_a_result_of_a_later_run_stands_where_clients_insert_it() -> None:
    call = parts.tool_call_part("pay", {"a": 1}, "call_1")
    first = run_of("0-a", [user("u1", "pay")], call, parts.text_part("Approve?", "b"))
    result = parts.tool_result_part("call_1", "paid")
    second = run_of("0-b", first.shown(), result, parts.text_part("Done.", "c"))
    calls, question = first.shown()[1:]
    thread = thread_of(first, second)
    assert texts(thread) == [
        ("user", "pay"),
        ("assistant", ""),
        ("tool", "paid"),
        ("assistant", "Approve?"),
        ("assistant", "Done."),
    ]
    assert [thread[1], thread[3]] == [calls, question]
