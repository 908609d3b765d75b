"""The triggers of callers: list, make, change, show, pause, resume and delete them.

A trigger runs as the caller that makes it, who needs to be allowed to send messages to its agent.
"""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.directory import AgentCard
from headrace.model.events import Json
from headrace.model.subjects import decode_token
from headrace.tasks.dead_letters import drop_letters_of
from headrace.trigger_firings import FiringHistory, TriggerProblem
from headrace.trigger_spec import TriggerSpec
from headrace.triggers import Trigger, TriggerStore, TriggerUnknown
from headrace_gateway.call import caller_of
from headrace_gateway.json_errors import InputInvalid
from headrace_gateway.protocols.fleet.declaration import (
    check_owner,
    check_subjects,
    declared,
    declaring,
    owner_in,
    priority_of,
    reaches,
    record,
)
from headrace_gateway.protocols.fleet.own_letters import OwnLetters, Source
from headrace_gateway.server.auth.caller import ANY_AGENT, Caller
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services
from headrace_gateway.tasks.terms import accepted_types, refused_part

PATH = "/v1/triggers"


class TriggerPages:
    """The endpoints."""

    def __init__(self, services: Services) -> None:
        """Use the triggers on the bus of `services`."""
        self._services, self._store = services, TriggerStore(services.bus)
        self._history = FiringHistory(services.bus)
        self.letters = OwnLetters(services, self._source)
        """The endpoints of their dead letters."""

    async def list(self, request: Request) -> ASGIApp:
        """Return the caller's triggers; those of its tenant, as far as it is an operator."""
        caller, owner = await self._caller(request, "ListTriggers"), owner_in(request)
        if not caller.is_operator:
            if owner not in {None, caller.owner}:
                return json_response({"triggers": []}, headers=NO_STORE)
            owner = caller.owner
        found, unread = await self._store.listed(caller.tenant, owner)
        reached = [
            one for one in found if reaches(caller, one.owner, one.agent, "ListTasks", "ListTasks")
        ]
        problems = await self._history.problems(caller.tenant, reached)
        shown = [one.shown() | _problem_in(problems.get(one.key)) for one in reached]
        unreadable = [
            {"name": one.name, "owner": decode_token(one.owner)}
            for one in unread
            # Which agent's it is, is not known.
            if reaches(caller, one.owner, ANY_AGENT, "ListTasks", "ListTasks")
        ]
        content: Json = {"triggers": shown}
        if unreadable:
            content["unreadable"] = unreadable
        return json_response(content, headers=NO_STORE)

    async def show(self, request: Request) -> ASGIApp:
        """Return one trigger, how many events wait, and what became of its last ones."""
        trigger = await self._find(request, "GetTrigger", "ListTasks", "ListTasks")
        waiting, problem, record = await asyncio.gather(
            self._history.waiting(trigger),
            self._history.problem(trigger),
            self._history.record(trigger),
        )
        content = {
            **trigger.shown(),
            **_problem_in(problem),
            "waiting": waiting,
            "firings": [one.model_dump() for one in reversed(record.last)],
            "letters": record.letters,
            "dropped": record.dropped,
            "failures": [one.model_dump(exclude_none=True) for one in reversed(record.failures)],
        }
        return json_response(content, headers=NO_STORE)

    async def put(self, request: Request) -> ASGIApp:
        """Make a trigger, or change it."""
        services = self._services
        spec = await declared(services, request, TriggerSpec, name=request.path_params["name"])
        call = await declaring(services, request, "PutTrigger", spec.agent, trigger=spec.name)
        _check_accepted(spec, call.card)
        caller = call.caller
        check_subjects(services, caller, spec.answers, spec.subject)
        check_owner(request, caller, "replace a trigger")
        requested = spec.priority if "priority" in spec.model_fields_set else None
        spec = spec.model_copy(update={"priority": priority_of(call, requested)})
        putting = self._store.put(spec, caller.tenant, caller.owner)
        trigger, is_new = await services.background.run(putting)
        status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
        return json_response(trigger.shown(), status, NO_STORE)

    async def pause(self, request: Request) -> ASGIApp:
        """Let a trigger's events wait in their stream."""
        return await self._switch(request, "PauseTrigger", self._store.pause)

    async def resume(self, request: Request) -> ASGIApp:
        """Let the events of a paused trigger begin tasks again."""
        return await self._switch(request, "ResumeTrigger", self._store.resume)

    async def _source(self, request: Request) -> Source:
        found = await self._find(request, "GetTrigger", "ListTasks", "ListTasks")
        return found.tenant, found.source, datetime.fromisoformat(found.since)

    async def delete(self, request: Request) -> ASGIApp:
        """Delete a trigger with its dead letters; tasks that it began continue."""
        trigger = await self._find(request, "DeleteTrigger", "CancelTask", "CancelTask")
        await self._services.background.run(self._delete(trigger))
        return json_response({"deleted": trigger.name}, headers=NO_STORE)

    async def _delete(self, trigger: Trigger) -> None:
        # The letters first: without the trigger they could no longer be dropped.
        await drop_letters_of(self._services.bus, trigger.tenant, trigger.source)
        await self._store.delete(trigger)

    async def _switch(
        self,
        request: Request,
        operation: str,
        switch: Callable[[Trigger], Coroutine[Any, Any, Trigger]],
    ) -> ASGIApp:
        trigger = await self._find(request, operation, "SendMessage", "CancelTask")
        switched = await self._services.background.run(switch(trigger))
        return json_response(switched.shown(), headers=NO_STORE)

    async def _find(self, request: Request, operation: str, own: str, operated: str) -> Trigger:
        """Return the trigger that the request names: its owner in the query, else the caller's.

        Its owner needs the permission for `own` with its agent, operators that for `operated`.
        """
        caller, name = await self._caller(request, operation), request.path_params["name"]
        trigger = await self._store.get(caller.tenant, owner_in(request) or caller.owner, name)
        if not reaches(caller, trigger.owner, trigger.agent, own, operated):
            raise TriggerUnknown(f"trigger {name!r} does not exist")
        named = {"trigger": name}
        await record(self._services, request, trigger.owner, trigger.agent, operation, **named)
        return trigger

    async def _caller(self, request: Request, operation: str) -> Caller:
        caller = caller_of(self._services, request)
        await self._services.access.check_anyone(caller, operation)
        return caller


def _problem_in(problem: TriggerProblem | None) -> Json:
    """Return the member that shows why a trigger's events begin no tasks at the moment."""
    if problem is None:
        return {}
    return {"problem": {"at": problem.at, "reason": problem.reason}}


def _check_accepted(spec: TriggerSpec, card: AgentCard) -> None:
    """Check that the agent accepts the text and data that the trigger states.

    A message that is the event's body may be either: that shows when the event comes.

    Raises:
        InputInvalid: it does not accept one of them.
    """
    stated = [name for name in ("text", "data") if getattr(spec, name) is not None]
    refused = refused_part([{name: None} for name in stated], card)
    if refused is not None:
        index, media_type = refused
        rule = f"agent {card.name} accepts {accepted_types(card)}, not {media_type}"
        raise InputInvalid(f"{stated[index]}: {rule}")
