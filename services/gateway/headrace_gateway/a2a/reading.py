"""GetTask, ListTasks and CancelTask: what there is to say about tasks that exist."""

from a2a.utils.errors import TaskNotCancelableError

from headrace import messages
from headrace.events import Json
from headrace_gateway.a2a.call import Call
from headrace_gateway.a2a.parameters import GetTask, ListTasks, OneTask
from headrace_gateway.a2a.task_ids import task_key
from headrace_gateway.refusals import TaskEnded
from headrace_gateway.services import Services


async def get_task(services: Services, call: Call, params: object) -> Json:
    """Return the A2A Task.

    Raises:
        Malformed: the parameters are not the operation's.
        TaskUnknown: no such task of this caller and agent.
        StateUnavailable: try again.
    """
    asked = GetTask.read(params)
    key = task_key(services.settings, call.caller, call.agent, asked.task)
    query = messages.GetTask(
        tenant=call.caller.tenant,
        owner=call.caller.owner,
        agent=call.agent,
        task=key.task,
        history_length=asked.history_length,
    )
    return (await services.state.get(query)).task


async def list_tasks(services: Services, call: Call, params: object) -> Json:
    """Return an A2A ListTasksResponse.

    Raises:
        Malformed: the parameters are not the operation's.
        InvalidName: the page token is none.
        StateUnavailable: try again.
    """
    asked = ListTasks.read(params)
    query = messages.ListTasks(
        tenant=call.caller.tenant,
        owner=call.caller.owner,
        agent=call.agent,
        context=asked.context,
        status=asked.status,
        status_after=asked.status_after,
        page_size=asked.page_size,
        page_token=asked.page_token,
        history_length=asked.history_length,
        include_artifacts=asked.include_artifacts,
    )
    found = await services.state.list(query)
    return {
        "tasks": found.tasks,
        "nextPageToken": found.next_page_token,
        "pageSize": found.page_size,
        "totalSize": found.total_size,
    }


async def cancel_task(services: Services, call: Call, params: object) -> Json:
    """Cancel the task and return it as its log then says it is.

    Raises:
        Malformed: the parameters are not the operation's.
        TaskUnknown: no such task of this caller and agent.
        TaskNotCancelableError: it was over before.
        BusUnavailable, StateUnavailable: try again.
    """
    asked = OneTask.of_cancel(params)
    key = task_key(services.settings, call.caller, call.agent, asked.task)
    try:
        return (await services.cancelling.cancel(call.caller, call.agent, key.task)).task
    except TaskEnded as ended:
        raise TaskNotCancelableError(str(ended)) from ended
