"""What runs have used: an owner's own, and for operators all of their tenant."""

from datetime import UTC, datetime

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.messages import USAGE_GROUPS, GetUsage, UsageCounts, UsageGroup
from headrace.model.subjects import decode_token
from headrace_gateway.call import caller_of
from headrace_gateway.json_errors import InputInvalid
from headrace_gateway.protocols.fleet.declaration import owner_in
from headrace_gateway.refusals import NotPermitted
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services

PATH = "/v1/usage"
OPERATION = "GetUsage"


class UsagePage:
    """The endpoint."""

    def __init__(self, services: Services) -> None:
        """Ask task state through `services`."""
        self._services = services

    async def read(self, request: Request) -> ASGIApp:
        """Return the usage of a period."""
        services, caller = self._services, caller_of(self._services, request)
        operates = await services.access.check_anyone(caller, OPERATION)
        owner = owner_in(request)
        if not operates:
            if owner not in (None, caller.owner):
                raise NotPermitted("only operators may read the usage of other owners")
            owner = caller.owner
        today = datetime.now(UTC).date().isoformat()
        last = request.query_params.get("to", today)
        query = GetUsage(
            tenant=caller.tenant,
            owner=owner,
            first=request.query_params.get("from", last),
            last=last,
            by=_groups(request.query_params.get("by", "agent")),
        )
        try:
            found = await services.state.usage(query)
        except InvalidName as error:
            raise InputInvalid(f"from, to: {error.rule}") from None
        content: Json = {
            "tenant": decode_token(query.tenant),
            **({"owner": decode_token(query.owner)} if query.owner is not None else {}),
            "from": query.first,
            "to": query.last,
            "rows": [_shown(row) for row in found.rows],
        }
        return json_response(content, headers=NO_STORE)


def _groups(stated: str) -> list[UsageGroup]:
    named = set(stated.split(",")) - {"tenant"}
    if not named <= set(USAGE_GROUPS):
        raise InputInvalid(f"by: must be tenant, or some of {', '.join(USAGE_GROUPS)}")
    return [group for group in USAGE_GROUPS if group in named]


def _shown(row: UsageCounts) -> Json:
    found = row.model_dump(exclude_none=True)
    if row.owner is not None:
        found["owner"] = decode_token(row.owner)
    return {
        **{group: found[group] for group in USAGE_GROUPS if group in found},
        "inputTokens": row.input_tokens,
        "outputTokens": row.output_tokens,
        "tokens": row.tokens,
        "cost": row.cost,
        "runs": row.runs,
        "runSeconds": row.run_seconds,
    }
