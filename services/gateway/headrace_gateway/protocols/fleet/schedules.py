"""Schedules of the caller: store, show, pause, resume, run now and delete them.

Whoever may send messages to an agent may schedule them. Operators see, pause and delete those of
all owners of their tenant.
"""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.jetstream.message_schedules import ExpressionRefused, TimeZoneRefused
from headrace.model.errors import InvalidName
from headrace.model.events import Json, timestamp
from headrace.model.schedule import ScheduleFirings, ScheduleKey
from headrace.model.schedule_machine import state_of
from headrace.model.subjects import decode_token, encode_token
from headrace.schedule_spec import EXPRESSION_RULES, KINDS, BackFill, ScheduleSpec
from headrace.schedules import (
    BackFillRefused,
    Listed,
    ScheduleUnknown,
    ScheduleUnreadable,
    StoredSchedule,
)
from headrace.tasks.dead_letters import drop_letters_of
from headrace_gateway.call import IDEMPOTENCY_KEY, caller_of
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
from headrace_gateway.protocols.fleet.parameters import LARGEST_NUMBER, number_in
from headrace_gateway.server.auth.caller import ANY_AGENT, Caller
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services
from headrace_gateway.tasks.terms import check_parts

PATH = "/v1/schedules"

_MOST = 200
_USUAL = 50
_MOST_READ = 1000
"""Schedules that are read for one page, about."""


class SchedulePages:
    """The endpoints."""

    def __init__(self, services: Services) -> None:
        """Use the schedules on the bus of `services`."""
        self._services, self._schedules = services, services.schedules
        self.letters = OwnLetters(services, self._source)
        """The endpoints of their dead letters."""

    async def list(self, request: Request) -> ASGIApp:
        """Return a page of the caller's schedules; for operators, of those in their tenant."""
        services, caller = self._services, caller_of(self._services, request)
        await services.access.check_anyone(caller, "ListSchedules")
        query = request.query_params
        after = number_in(query, "after", 0, LARGEST_NUMBER, 0)
        limit = number_in(query, "limit", 1, _MOST, _USUAL)
        pattern = owner_in(request) or ("*" if caller.is_operator else caller.owner)
        if not caller.is_operator and pattern != caller.owner:
            # `next` would reveal how many there are.
            return json_response({"schedules": [], "next": None}, headers=NO_STORE)
        reached, further = await self._reached(caller, pattern, after, limit)
        shown, unreadable = list[Json](), list[Json]()
        for one in reached:
            try:
                shown.append(await self._listed(one))
            except ScheduleUnreadable as error:
                unreadable.append(_unreadable(error))
        content: Json = {"schedules": shown, "next": further}
        if unreadable:
            content["unreadable"] = unreadable
        return json_response(content, headers=NO_STORE)

    async def _reached(
        self, caller: Caller, owner: str, after: int, limit: int
    ) -> tuple[Sequence[Listed], int | None]:
        """Return the first schedules that the caller may see, and `after` of the next page, if any.

        Each that is read costs a request, so a page may end before there are `limit` of them. Only
        that reveals others.
        """
        reached, read = list[Listed](), 0
        while read < _MOST_READ:
            found = await self._schedules.list(caller.tenant, owner, after, limit + 1)
            reached += [one for one in found if _reaches(caller, one, "GetSchedule")]
            if len(reached) > limit:
                return reached[:limit], reached[limit - 1].sequence
            if len(found) <= limit:
                return reached, None
            after, read = found[-1].sequence, read + len(found)
        return reached, after

    async def _listed(self, one: Listed) -> Json:
        if isinstance(one, ScheduleUnreadable):
            raise one
        return _shown(one, await self._schedules.next(one))

    async def get(self, request: Request) -> ASGIApp:
        """Return a schedule and what its last firings have done."""
        found = await self._found(request, "GetSchedule")
        return await self._answer(found)

    async def put(self, request: Request) -> ASGIApp:
        """Create a schedule of the caller, or replace it."""
        services = self._services
        stated = await declared(services, request, ScheduleSpec)
        name = _name(request)
        call = await declaring(services, request, "PutSchedule", stated.agent, schedule=name)
        schedule = stated.schedule(priority_of(call, stated.priority))
        check_parts({"parts": schedule.parts}, call.card)
        check_subjects(services, call.caller, schedule.answers)
        check_owner(request, call.caller, "replace a schedule")
        key = ScheduleKey(call.caller.tenant, call.caller.owner, name)
        try:
            stored = await services.background.run(self._schedules.put(key, schedule))
        except ExpressionRefused:
            kind = next(kind for kind in KINDS if getattr(schedule, kind) is not None)
            raise InputInvalid(f"{kind}: {EXPRESSION_RULES[kind]}") from None
        except TimeZoneRefused:
            raise InputInvalid("timeZone: must be an IANA time zone such as Europe/Paris") from None
        return await self._answer(stored)

    async def pause(self, request: Request) -> ASGIApp:
        """Let a schedule fire no more until it is resumed."""
        found = await self._found(request, "PauseSchedule")
        await self._services.background.run(self._schedules.pause(found.key))
        return await self._again(found.key)

    async def resume(self, request: Request) -> ASGIApp:
        """Let a paused schedule fire again."""
        found = await self._found(request, "ResumeSchedule")
        await self._services.background.run(self._schedules.resume(found.key))
        return await self._again(found.key)

    async def run(self, request: Request) -> ASGIApp:
        """Fire a schedule once, now."""
        check_owner(request, caller_of(self._services, request), "run a schedule now")
        found = await self._found(request, "RunSchedule")
        key = request.headers.get(IDEMPOTENCY_KEY) or secrets.token_hex(12)
        try:
            token = encode_token(key)
        except InvalidName as error:
            raise InputInvalid(f"{IDEMPOTENCY_KEY}: {error.rule}") from None
        await self._services.background.run(self._schedules.run_now(found.key, token))
        return await self._answer(found)

    async def back_fill(self, request: Request) -> ASGIApp:
        """Fire a schedule for each of its times in a range that is over."""
        declaration = await declared(self._services, request, BackFill)
        check_owner(request, caller_of(self._services, request), "back-fill a schedule")
        found = await self._found(request, "RunSchedule")
        filling = self._schedules.back_fill(
            found.key, declaration.start, declaration.end, declaration.overlap
        )
        try:
            number = await self._services.background.run(filling)
        except BackFillRefused as refused:
            raise InputInvalid(str(refused)) from None
        return json_response({"firings": number}, headers=NO_STORE)

    async def _source(self, request: Request) -> Source:
        found = await self._found(request, "GetSchedule")
        return found.key.tenant, found.key.source, _made(found)

    async def delete(self, request: Request) -> ASGIApp:
        """Delete a schedule with its dead letters; tasks that it has begun stay."""
        await self._services.background.run(self._delete(await self._deletable(request)))
        return json_response({}, headers=NO_STORE)

    async def _deletable(self, request: Request) -> ScheduleKey:
        """Return the key of the schedule that the request names, also if it can't be read."""
        try:
            return (await self._found(request, "DeleteSchedule")).key
        except ScheduleUnreadable as unreadable:
            await self._record(request, unreadable.key, ANY_AGENT, "DeleteSchedule")
            return unreadable.key

    async def _delete(self, key: ScheduleKey) -> None:
        # The letters first: without the schedule they could no longer be dropped.
        await drop_letters_of(self._services.bus, key.tenant, key.source)
        await self._schedules.delete(key)

    async def _found(self, request: Request, operation: str) -> StoredSchedule:
        access, caller = self._services.access, caller_of(self._services, request)
        await access.check_anyone(caller, operation)
        owner, name = owner_in(request) or caller.owner, _name(request)
        try:
            found = await self._schedules.get(ScheduleKey(caller.tenant, owner, name))
        except ScheduleUnreadable as unreadable:
            if _reaches(caller, unreadable, operation):
                raise
            found = None
        # Nobody learns of schedules that are not theirs.
        if found is None or not _reaches(caller, found, operation):
            raise ScheduleUnknown(f"schedule {decode_token(name)!r} does not exist")
        await self._record(request, found.key, found.schedule.agent, operation)
        return found

    async def _record(self, request: Request, key: ScheduleKey, agent: str, operation: str) -> None:
        """Record in the audit log what the caller does with the schedule."""
        named = {"schedule": key.name}
        await record(self._services, request, key.owner, agent, operation, **named)

    async def _again(self, key: ScheduleKey) -> ASGIApp:
        found = await self._schedules.get(key)
        if found is None:
            raise ScheduleUnknown(f"schedule {decode_token(key.name)!r} does not exist")
        return await self._answer(found)

    async def _answer(self, stored: StoredSchedule) -> ASGIApp:
        firings = (await self._schedules.firings(stored.key)).of(stored.schedule.created)
        following = await self._schedules.next(stored, firings)
        return json_response(_shown(stored, following, firings), headers=NO_STORE)


def _reaches(caller: Caller, found: Listed, operation: str) -> bool:
    """Return whether the caller may see the schedule, for `operation`."""
    operated = "ListTasks" if operation == "GetSchedule" else "CancelTask"
    # Which agent's one is that can't be read is not known.
    agent = ANY_AGENT if isinstance(found, ScheduleUnreadable) else found.schedule.agent
    return reaches(caller, found.key.owner, agent, operation, operated)


def _unreadable(error: ScheduleUnreadable) -> Json:
    return {"name": decode_token(error.key.name), "owner": decode_token(error.key.owner)}


def _made(stored: StoredSchedule) -> datetime:
    return datetime.fromtimestamp(stored.schedule.created, UTC)


def _name(request: Request) -> str:
    try:
        return encode_token(request.path_params["name"])
    except InvalidName as error:
        raise InputInvalid(f"name: {error.rule}") from None


def _shown(
    stored: StoredSchedule, following: datetime | None, firings: ScheduleFirings | None = None
) -> Json:
    """Return a schedule that fires next at `following`, with its `firings` if they were read."""
    one = stored.schedule
    shown: Json = {
        "name": decode_token(stored.key.name),
        "owner": decode_token(stored.key.owner),
        **ScheduleSpec.shown(one),
        "state": state_of(one),
        "ended": one.ended or None,
        "created": timestamp(_made(stored)),
        "next": following and timestamp(following, "seconds"),
    }
    if firings is None:
        return shown
    return shown | {
        "began": firings.began,
        "skipped": firings.skipped,
        "waiting": len(firings.waiting),
        "firings": [firing.model_dump() for firing in reversed(firings.last)],
    }
