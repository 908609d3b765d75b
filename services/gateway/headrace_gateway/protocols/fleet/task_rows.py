"""The tasks of all agents: one page of rows, and how many tasks are in each state."""

from datetime import datetime

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.messages import FindTasks, RowsFound, TaskRow
from headrace.model.subjects import decode_token
from headrace.model.task import STATES
from headrace_gateway.call import callable_agents, caller_of
from headrace_gateway.json_errors import InputInvalid
from headrace_gateway.protocols.fleet.declaration import owner_in
from headrace_gateway.protocols.fleet.parameters import number_in
from headrace_gateway.refusals import NotPermitted
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services

PATH = "/v1/tasks"
OPERATION = "ListTasks"

_MOST = 200
_USUAL = 50
_LONGEST_TEXT = 200

_ORDERS = {"newest": False, "oldest": True}


_NOTHING = RowsFound(tasks=[], counts={}, total_size=0, next_page_token="")


class TaskRowPages:
    """The endpoint."""

    def __init__(self, services: Services) -> None:
        """Ask task state through `services`."""
        self._services = services

    async def read(self, request: Request) -> ASGIApp:
        """Return a page of rows."""
        caller = await rows_caller(self._services, request)
        query = self._query(request, caller)
        if not query.agents:
            return json_response(_content(_NOTHING), headers=NO_STORE)
        try:
            found = await self._services.state.find(query)
        except InvalidName as error:
            raise InputInvalid(f"after: {error.rule}") from None
        return json_response(_content(found), headers=NO_STORE)

    def _query(self, request: Request, caller: Caller) -> FindTasks:
        given = request.query_params
        agents = agents_in(self._services, request)
        owner = rows_owner(request, caller, agents)
        return FindTasks(
            tenant=caller.tenant,
            owner=owner or caller.owner,
            any_owner=owner is None,
            agents=agents,
            context=given.get("contextId") or None,
            states=sorted(states_in(request)),
            status_after=_time_in(request),
            text=_text_in(request),
            oldest_first=_ORDERS[_order_in(request)],
            page_size=number_in(given, "limit", 1, _MOST, _USUAL),
            page_token=given.get("after", ""),
        )


async def rows_caller(services: Services, request: Request) -> Caller:
    """Return the caller of a request for rows, which is audited if it may be about others' tasks.

    Raises:
        InputInvalid: `own` is neither true nor false.
        CredentialsMissing, CredentialsRefused: the request does not identify a caller.
        RateLimited: the caller or its tenant has reached its rate limit.
    """
    caller = caller_of(services, request)
    if _is_own(request):
        services.access.check_own(caller, OPERATION)
    else:
        await services.access.check_anyone(caller, OPERATION)
    return caller


def _is_own(request: Request) -> bool:
    stated = request.query_params.get("own", "false")
    if stated not in {"true", "false"}:
        raise InputInvalid("own: must be true or false")
    return stated == "true"


def agents_in(services: Services, request: Request) -> list[str]:
    """Return the agents whose tasks the caller lists: those in the query that it may list."""
    permitted = [card.name for card in callable_agents(services, request, OPERATION)]
    named = request.query_params.getlist("agent")
    return [name for name in permitted if name in named] if named else permitted


def rows_owner(request: Request, caller: Caller, agents: list[str]) -> str | None:
    """Return the owner, as a token, whose tasks are listed. None: those of all owners.

    Raises:
        NotPermitted: it is another one, and the caller does not operate all of the agents.
    """
    if _is_own(request):
        return caller.owner
    owner = owner_in(request)
    operates = all(caller.operates(agent, OPERATION) for agent in agents)
    if owner is None:
        return None if operates else caller.owner
    if owner != caller.owner and not operates:
        raise NotPermitted("only operators may list the tasks of other owners")
    return owner


def states_in(request: Request) -> frozenset[str]:
    """Return the states of the tasks that are listed; empty: all.

    Raises:
        InputInvalid: one is no state.
    """
    states = frozenset(filter(None, request.query_params.getlist("status")))
    if not states <= STATES:
        raise InputInvalid(f"status: must be one of {', '.join(sorted(STATES))}")
    return states


def _time_in(request: Request) -> str | None:
    stated = request.query_params.get("statusTimestampAfter") or None
    try:
        if stated is not None:
            datetime.fromisoformat(stated)
    except ValueError:
        raise InputInvalid("statusTimestampAfter: must be an RFC 3339 timestamp") from None
    return stated


def _text_in(request: Request) -> str:
    text = request.query_params.get("q", "").strip()
    if len(text) > _LONGEST_TEXT:
        raise InputInvalid(f"q: must not be longer than {_LONGEST_TEXT} characters")
    return text


def _order_in(request: Request) -> str:
    order = request.query_params.get("order", "newest")
    if order not in _ORDERS:
        raise InputInvalid(f"order: must be one of {', '.join(_ORDERS)}")
    return order


def _content(found: RowsFound) -> Json:
    return {
        "tasks": [_shown(row) for row in found.tasks],
        "counts": found.counts,
        "totalSize": found.total_size,
        "next": found.next_page_token or None,
        "searchedTo": found.searched_to or None,
    }


def _shown(row: TaskRow) -> Json:
    return {
        "id": row.id,
        "agent": row.agent,
        "owner": decode_token(row.owner),
        "contextId": row.context,
        "state": row.state,
        "time": row.time,
        "title": row.title,
        "text": row.text,
        **({} if row.question is None else {"status": row.question}),
    }
