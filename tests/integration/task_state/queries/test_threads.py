"""Lists of threads: complete, as their owner has set them, and the same after a rebuild."""

import pytest

from headrace.model.errors import InvalidName, StateUnavailable
from headrace.model.messages import ListedThread, ListThreads, ThreadsFound
from headrace.model.task import COMPLETED, INPUT_REQUIRED
from headrace.thread_marks import ThreadMark, ThreadMarks
from tests.support.legal_logs import LegalLog
from tests.support.task_states import OWNER, TaskStates, new_key
from tests.support.waiting import eventually


def answered(context: str, question: str, answer: str, agent: str = "shop") -> LegalLog:
    """Return the log of a task that has answered."""
    log = LegalLog(new_key(agent=agent), context=context)
    log.submit(question)
    log.begin_attempt()
    log.append([log.chunk("answer", answer)])
    log.append([log.status(COMPLETED)], state=COMPLETED)
    return log


async def found(fleet: TaskStates, **query: object) -> ThreadsFound:
    """Ask until task state can tell."""
    request = ListThreads.model_validate({"tenant": "default", "owner": OWNER, **query})

    async def ask() -> ThreadsFound | None:
        try:
            return await fleet.client.threads(request)
        except StateUnavailable:
            return None

    return await eventually(ask, "threads are listed")


async def listed(fleet: TaskStates, **query: object) -> list[ListedThread]:
    """Return the threads of all pages."""
    threads, token = list[ListedThread](), ""
    while True:
        page = await found(fleet, page_token=token, **query)
        threads += page.threads
        if not (token := page.next_page_token):
            assert len(threads) == page.total_size
            return threads


def renamed(mark: ThreadMark) -> ThreadMark:
    return mark.model_copy(update={"title": "Breakfast"})


def put_away(mark: ThreadMark) -> ThreadMark:
    return mark.model_copy(update={"archived": True, "read": 2**52})


async def test_what_owners_have_set_and_logs_contain_outlives_the_store(fleet: TaskStates) -> None:
    await fleet.start()
    logs = [
        answered("one", "Two eggs", "Boiled?"),
        answered("two", "Tea?", "No, coffee"),
        answered("one", "Fried", "Here you are", agent="cook"),
        answered("three", "Bye", "See you"),
    ]
    for log in logs:
        await fleet.store(log)
    asks = LegalLog(new_key(agent="shop"), context="four")
    asks.submit("A room")
    asks.begin_attempt()
    asks.append([asks.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    await fleet.store(asks)
    marks = ThreadMarks(fleet.bus)
    await marks.change("default", OWNER, "one", renamed)
    await marks.change("default", OWNER, "two", put_away)
    await marks.change("default", "somebody", "three", put_away)
    before = [await listed(fleet, page_size=size) for size in (1, 50)]
    [first, *others] = before[1]
    assert (first.id, first.state, first.waiting) == ("four", INPUT_REQUIRED, True)
    assert [one.id for one in others] == ["three", "one", "two"]
    assert others[1].model_dump(exclude={"created", "changed"}) == {
        "id": "one",
        "agents": ["cook", "shop"],
        "title": "Breakfast",
        "text": "Here you are",
        "state": COMPLETED,
        "waiting": False,
        "unread": True,
        "archived": False,
        "tasks": 2,
    }
    assert (others[2].archived, others[2].unread) == (True, False)
    assert before[0] == before[1]
    await fleet.lose_view()
    await fleet.followed()
    assert await listed(fleet) == before[1]


async def test_threads_are_found_by_words_agents_and_what_is_archived(fleet: TaskStates) -> None:
    await fleet.start()
    logs = [
        answered("one", "Zwei Eier für die STRASSE", "ok"),
        answered("two", "Tee", "Bitte", agent="cook"),
        answered("three", "Tea", "Thanks for tee-time"),
    ]
    for log in logs:
        await fleet.store(log)
    await ThreadMarks(fleet.bus).change("default", OWNER, "two", put_away)
    queries: list[tuple[dict[str, object], list[str]]] = [
        ({"words": "tee"}, ["three", "two"]),
        ({"words": "tee", "archived": False}, ["three"]),
        ({"words": "straße"}, ["one"]),
        ({"agents": ["cook"]}, ["two"]),
        ({"agents": []}, []),
        ({"context": "one"}, ["one"]),
        ({"context": "one", "owner": "somebody"}, []),
        ({"context": "one", "tenant": "other"}, []),
        ({"archived": True}, ["two"]),
    ]
    answers = [[one.id for one in await listed(fleet, **query)] for query, _ in queries]
    assert answers == [wanted for _, wanted in queries]
    with pytest.raises(InvalidName, match="must be a page token"):
        await found(fleet, page_token="x")


async def test_a_mark_that_is_deleted_or_changed_by_another_is_seen_at_once(
    fleet: TaskStates,
) -> None:
    here, there = ThreadMarks(fleet.bus), ThreadMarks(fleet.bus)
    await fleet.start()
    for number in range(3):
        await here.change("default", OWNER, str(number), renamed)
    assert len(await there.of("default", OWNER)) == 3
    await here.change("default", OWNER, "1", put_away)
    await here.delete("default", OWNER, "2")
    assert await there.of("default", OWNER) == {
        "0": ThreadMark(context="0", title="Breakfast"),
        "1": ThreadMark(context="1", title="Breakfast", archived=True, read=2**52),
    }
    assert await there.of("default", "somebody") == {}
