"""What was said before in the same conversation."""

from headrace.bus import Bus
from headrace.events import Json
from headrace.messages import ListTasks
from headrace.state_client import StateClient
from headrace.task import TaskKey

_PAGE = 100


async def earlier_tasks(bus: Bus, key: TaskKey, owner: str, context: str) -> list[Json]:
    """Return the other tasks of the owner's in `context`, least recently changed first.

    Raises:
        StateUnavailable: task state does not answer.
    """
    state, found, token = StateClient(bus), list[Json](), ""
    while True:
        query = ListTasks(
            tenant=key.tenant,
            owner=owner,
            context=context,
            page_size=_PAGE,
            page_token=token,
            include_artifacts=True,
        )
        page = await state.list(query)
        found += [task for task in page.tasks if task["id"] != key.task]
        token = page.next_page_token
        if not token:
            return found[::-1]
