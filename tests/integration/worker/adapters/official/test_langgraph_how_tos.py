"""What LangGraph's pages on people in the loop show, served unchanged."""

from types import ModuleType
from typing import Any

import httpx
import pytest
from a2a.types import TaskState

from tests.integration.worker.adapters.official.users import (
    AgUiUser,
    RecordedRun,
    a2a_user,
    state,
    words,
)
from tests.integration.worker.adapters.wire import calls, chat_model, replies
from tests.integration.worker.conftest import Working

ASKS, DONE = TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_COMPLETED


@pytest.fixture(scope="module")
def how_tos() -> ModuleType:
    """The agents of the pages."""
    from tests.integration.worker.adapters.official import langgraph_how_tos

    return langgraph_how_tos


@pytest.mark.parametrize(("said", "told"), [("yes", "approved"), ("no", "rejected")])
async def test_approve_or_reject(
    http: httpx.AsyncClient, working: Working, how_tos: ModuleType, said: str, told: str
) -> None:
    async with working(how_tos.approving()), a2a_user(http, "approving") as user:
        asked = await user.replies("Send it.")
        done = await user.replies(said)
    assert (state(asked), words(asked)) == (ASKS, ["Approve this?"])
    assert (state(done), words(done)[-1]) == (DONE, told)


async def test_approve_or_reject_by_ag_ui(
    http: httpx.AsyncClient, working: Working, runs: list[RecordedRun], how_tos: ModuleType
) -> None:
    user = AgUiUser(http, "approving", runs)
    async with working(how_tos.approving()):
        [asked] = (await user.replies("Send it."))["interrupts"]
        done = await user.resumes({asked["id"]: True})
    assert asked["metadata"]["value"]["details"] == "$500"
    assert (done["type"], user.last["content"]) == ("success", "approved")


async def test_edit_the_state(
    http: httpx.AsyncClient, working: Working, runs: list[RecordedRun], how_tos: ModuleType
) -> None:
    user = AgUiUser(http, "editing", runs)
    async with working(how_tos.editing()):
        [asked] = (await user.replies("Sum it up."))["interrupts"]
        assert user.state == {"summary": "The cat sat."}
        await user.resumes({asked["id"]: {"summary": "The cat sat down."}})
    assert user.state == {"summary": "The cat sat down."}
    assert user.last["content"] == "The cat sat down."


async def test_validate_what_a_person_enters(
    http: httpx.AsyncClient, working: Working, how_tos: ModuleType
) -> None:
    async with working(how_tos.validating()), a2a_user(http, "validating") as user:
        asked = await user.replies("Hello.")
        again = await user.replies("old")
        once_more = await user.replies("very old")
        done = await user.replies("42")
    assert [state(told) for told in (asked, again, once_more, done)] == [ASKS, ASKS, ASKS, DONE]
    assert words(asked)[-1] == "How old are you?"
    assert words(again)[-1] == "'old' is no age. How old are you?"
    assert words(once_more)[-1] == "'very old' is no age. How old are you?"
    assert words(done)[-1] == "You are 42."


async def test_wait_for_what_a_person_enters(
    http: httpx.AsyncClient, working: Working, how_tos: ModuleType
) -> None:
    async with working(how_tos.waiting()), a2a_user(http, "waiting") as user:
        asked = await user.replies("Begin.")
        done = await user.replies("fine")
    assert words(asked) == ["First. ", "Your feedback?"]
    assert (state(done), words(done)[-2:]) == (DONE, ["You said fine. ", "Last."])


@pytest.mark.parametrize(
    ("answer", "booked", "told"),
    [
        ({"type": "accept"}, ["Ritz"], "booked Ritz"),
        ({"type": "edit", "args": {"hotel": "Savoy"}}, ["Savoy"], "booked Savoy"),
        ({"type": "response", "args": "Not that one."}, [], "Not that one."),
    ],
    ids=["accepted", "edited", "answered"],
)
async def test_review_a_tool_call(  # noqa: PLR0913, PLR0917  # fixtures
    http: httpx.AsyncClient,
    working: Working,
    runs: list[RecordedRun],
    how_tos: ModuleType,
    answer: dict[str, Any],
    booked: list[str],
    told: str,
) -> None:
    done: list[str] = []
    script = [calls(("b1", "book", {"hotel": "Ritz"})), replies("There you are.")]
    async with chat_model(script) as model:
        user = AgUiUser(http, "booking", runs)
        async with working(how_tos.booking(model.url, done)):
            [asked] = (await user.replies("Book the Ritz."))["interrupts"]
            await user.resumes({asked["id"]: answer})
    assert asked["metadata"]["value"]["args"] == {"hotel": "Ritz"}
    assert user.last["content"] == "There you are."
    assert (done, model.conversations[1][-1].text) == (booked, told)
