"""A context's open tasks are found with one query, and with another where that does not suffice."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.model.events import Json
from headrace.model.messages import ListTasks, TasksFound
from headrace.model.task import COMPLETED, SUBMITTED, WORKING
from headrace_gateway.context_tasks import ContextTasks


class FakeLists:
    """Task state with these tasks, newest first."""

    def __init__(self, tasks: dict[str, str]) -> None:
        self.tasks = tasks
        self.queries: list[ListTasks] = []

    async def list(self, query: ListTasks) -> TasksFound:
        self.queries.append(query)
        found: list[Json] = [
            {"id": task, "status": {"state": state}}
            for task, state in self.tasks.items()
            if state in query.states
        ]
        return TasksFound(
            tasks=found[: query.page_size],
            next_page_token="next" if len(found) > query.page_size else "",
            page_size=query.page_size,
            total_size=len(found),
        )


async def open_tasks(lists: FakeLists, most: int = 100) -> dict[str, str]:
    services = cast("Any", SimpleNamespace(state=lists))
    caller, card = SimpleNamespace(tenant="t", owner="o"), SimpleNamespace(follow_ups="enqueue")
    call = cast("Any", SimpleNamespace(caller=caller, agent="a", card=card))
    tasks = await ContextTasks(services, call, "thread").open(most)
    assert len(tasks) == len({task["id"] for task in tasks})
    return {task["id"]: task["status"]["state"] for task in tasks}


async def test_one_query_finds_submitted_and_working_tasks() -> None:
    lists = FakeLists({"c": SUBMITTED, "b": COMPLETED, "a": WORKING})
    assert await open_tasks(lists) == {"c": SUBMITTED, "a": WORKING}
    [query] = lists.queries
    assert (query.tenant, query.owner, query.agents) == ("t", "o", ["a"])
    assert query.context == "thread"


@pytest.mark.parametrize(("newer", "older"), [(SUBMITTED, WORKING), (WORKING, SUBMITTED)])
async def test_a_task_is_found_behind_a_page_of_those_in_the_other_state(
    newer: str, older: str
) -> None:
    tasks = {f"n{n}": newer for n in range(5)} | {f"o{n}": older for n in range(2)}
    lists = FakeLists(tasks)
    found = {"n0": newer, "n1": newer, "n2": newer, "o0": older, "o1": older}
    assert await open_tasks(lists, 3) == found


@pytest.mark.parametrize(
    ("before", "queries"),
    [(dict.fromkeys("wxyz", WORKING), 1), (dict.fromkeys("wxyz", WORKING), 2)],
)
async def test_a_task_that_starts_between_two_queries_is_found_once(
    before: dict[str, str], queries: int
) -> None:
    class Starting(FakeLists):
        async def list(self, query: ListTasks) -> TasksFound:
            found = await super().list(query)
            if len(self.queries) == queries:
                self.tasks = {"a": WORKING} | before
            return found

    lists = Starting(before | {"a": SUBMITTED})
    assert (await open_tasks(lists, 3))["a"] == WORKING
