"""What callers declare, so that tasks of an agent begin later: triggers and schedules.

Whoever may send messages to an agent may declare them, and their tasks run as that caller.
"""

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from headrace.model.answers import AnswerRule
from headrace.model.errors import InvalidName
from headrace.model.field_rule import first_problem
from headrace.model.nesting import RULE, is_too_deep
from headrace.model.subjects import encode_token
from headrace.triggers import may_use
from headrace_gateway.call import Call, call_of, caller_of
from headrace_gateway.json_errors import InputInvalid, read_object
from headrace_gateway.refusals import AgentUnknown, NotPermitted
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.body import BodyTooLarge
from headrace_gateway.services import Services
from headrace_gateway.tasks.terms import terms

LARGEST = 64 * 1024
"""Maximum bytes of a declaration. It is kept until it is deleted, and each firing of a schedule has
a copy."""


async def declared[Spec: BaseModel](
    services: Services, request: Request, spec: type[Spec], **more: str
) -> Spec:
    """Return what the body of a request declares, with `more` fields that it may not change.

    Raises:
        InputInvalid: it breaks a rule; the message names the field and the rule.
        HeadraceError: as `caller_of` and `read_object`.
    """
    caller_of(services, request)  # before its body is read
    try:
        body = await read_object(request, services.body_limits, LARGEST)
    except BodyTooLarge as error:
        raise InputInvalid(f"the body: must have at most {error.limit} bytes") from None
    if is_too_deep(body):
        raise InputInvalid(f"the body: {RULE}")
    try:
        return spec.model_validate({**body, **more})
    except ValidationError as error:
        raise InputInvalid(first_problem(error, "the body")) from None


async def declaring(
    services: Services, request: Request, operation: str, agent: str, **named: str
) -> Call:
    """Return the call that declares something for the agent, if its caller may.

    `named`: the field of the audit log with the name of what is declared.

    Raises:
        AgentUnknown: there is no such agent.
        HeadraceError: as `call_of`.
    """
    call = await call_of(services, request, operation, tenant=agent, **named)
    if call.agent != agent:
        raise AgentUnknown.called(agent, at_root=False)
    return call


def priority_of(call: Call, requested: str | None) -> str:
    """Return the priority of the declared tasks; the caller's if none is wished.

    Raises:
        HeadraceError: as `terms`.
    """
    stated = {} if requested is None else {"priority": requested}
    return terms(call.caller, call.card, stated, "").priority


def check_subjects(
    services: Services, caller: Caller, answers: AnswerRule | None, *others: str
) -> None:
    """Check that the caller's tenant may use the subject of `answers`, and the `others`.

    Raises:
        NotPermitted: it may not use one of them.
    """
    settings = services.settings
    answered = [answers.subject] if answers is not None and answers.subject is not None else []
    for subject in (*others, *answered):
        if not may_use(subject, caller.tenant, settings.trigger_subjects, settings.prefix):
            raise NotPermitted(f"your tenant may not use subject {subject}")


def owner_in(request: Request) -> str | None:
    """Return the owner in the query, as a token. None: it names none.

    Raises:
        InputInvalid: there can't be such an owner.
    """
    stated = request.query_params.get("owner")
    try:
        return None if stated is None else encode_token(stated)
    except InvalidName as error:
        raise InputInvalid(f"owner: {error.rule}") from None


def check_owner(request: Request, caller: Caller, what: str) -> None:
    """Check that the query names no other owner: `what`, such as "run a schedule", is the owner's.

    Raises:
        InputInvalid: it names one.
    """
    if owner_in(request) not in {None, caller.owner}:
        raise InputInvalid(f"owner: only the owner can {what}")


def reaches(caller: Caller, owner: str, agent: str, operation: str, operated: str) -> bool:
    """Return whether the caller may carry out `operation` on what `owner` declared for the agent.

    On what other owners of its tenant declared, an operator may if its role includes `operated`,
    the operation with tasks that comes nearest.
    """
    if owner == caller.owner:
        return caller.may(agent, operation)
    return caller.operates(agent, operated)


async def record(
    services: Services, request: Request, owner: str, agent: str, operation: str, **named: str
) -> None:
    """Record in the audit log what the caller does with what `owner` declared for the agent.

    `named`: the field of the audit log with its name.
    """
    caller = caller_of(services, request)
    operates = owner != caller.owner
    await services.access.record(
        caller, agent, operation, operates=operates, target_owner=owner, **named
    )
