"""Checks of what NATS permits a login, compared with what the role that it belongs to needs."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from headrace.jetstream.permissions import (
    GATEWAY,
    ROLES,
    TASK_STATE,
    TRIGGERS,
    Permissions,
    Rights,
)
from headrace.model.events import Json
from headrace.settings import BusSettings
from headrace.triggers import covers, overlap
from headrace_cli.doctor.diagnosis import Diagnosis, first_of, ok, problem, warning

_NATS = "NATS"
_REMEDY = "give the user the permissions that `headrace nats-permissions` of this release prints"


class _OfGateways(BusSettings):
    role = GATEWAY


class _OfTaskState(BusSettings):
    role = TASK_STATE


class _OfTriggers(BusSettings):
    role = TRIGGERS


SERVICES: Mapping[str, type[BusSettings]] = {
    one.role: one for one in (_OfGateways, _OfTaskState, _OfTriggers)
}
"""By the users of services: settings with which their answers reach this process."""

_SHOWN = 3
"""Subjects that a diagnosis names."""


def check_role(settings: BusSettings, user: str, permissions: Json) -> Iterator[Diagnosis]:
    """Yield what a login may not do and its service needs, and what only other services need.

    `user` names the role, as the users of generated permissions do; other users are not checked.
    `permissions` are the login's, as NATS states them; empty: it may do everything.
    """
    if user not in ROLES or not permissions:
        return
    every = {role: Permissions(settings, ()).rights(role) for role in ROLES}
    others = [rights for role, rights in every.items() if role not in {user, "operator"}]
    sound = True
    for verb, action in (("publish", "publish on"), ("subscribe", "subscribe to")):
        granted = permissions.get(verb) or {}
        needed, never = _subjects(every[user], verb), every[user].never
        if missing := [one for one in needed if not _may_all(granted, one, never)]:
            sound = False
            text = f"user {user!r} may not {action} {first_of(missing, _SHOWN)}, as {user} needs"
            yield problem(_NATS, text, _REMEDY)
        foreign = dict.fromkeys(one for rights in others for one in _subjects(rights, verb))
        excess = [
            one
            for one in foreign
            if not any(overlap(own, one) for own in needed) and _may_some(granted, one)
        ]
        if excess:
            sound = False
            named = first_of(excess, _SHOWN)
            text = f"user {user!r} may {action} {named}, as only other services need"
            yield warning(_NATS, text, _REMEDY)
    if sound:
        yield ok(_NATS, f"user {user!r} has the rights of {user}, and no other service's")


def _subjects(rights: Rights, verb: str) -> list[str]:
    return rights.publish if verb == "publish" else rights.subscribe


def _may_all(granted: Json, needed: str, never: Sequence[str]) -> bool:
    """Return whether a pattern allows all of `needed`, and none denies a part of it.

    Those that the role has itself, which are `never` its to use, don't count.
    """
    denied = [one for one in _denied(granted) if not any(covers(own, one) for own in never)]
    return _allows(granted, needed, covers) and not any(overlap(one, needed) for one in denied)


def _may_some(granted: Json, subject: str) -> bool:
    """Return whether a pattern allows a part of `subject`, and none denies all of it."""
    denied = any(covers(one, subject) for one in _denied(granted))
    return _allows(granted, subject, overlap) and not denied


def _allows(granted: Json, subject: str, matches: Callable[[str, str], bool]) -> bool:
    allowed = granted.get("allow")
    return not allowed or any(matches(one, subject) for one in allowed)


def _denied(granted: Json) -> Sequence[str]:
    return granted.get("deny") or ()
