"""GetExtendedAgentCard: what an agent says of itself to callers who are known."""

from a2a.utils.errors import ExtendedAgentCardNotConfiguredError, UnsupportedOperationError

from headrace.model.events import Json
from headrace_gateway.call import Call
from headrace_gateway.protocols.a2a.cards import agent_card
from headrace_gateway.refusals import CredentialsMissing
from headrace_gateway.services import Services

_REPLACED = ("description", "version", "provider", "documentationUrl", "iconUrl")


async def extended_card(services: Services, call: Call, params: object) -> Json:  # noqa: ARG001 - they say nothing
    """Return the agent's extended card, signed.

    Raises:
        UnsupportedOperationError: the agent does not say that it has one.
        ExtendedAgentCardNotConfiguredError: it says so, but there is nothing in it, or nobody can
            be known: there is no HEADRACE_CREDENTIALS.
        CredentialsMissing: the caller is anonymous.
    """
    extended = call.card.extended
    if extended is None:
        raise UnsupportedOperationError(f"agent {call.agent} has no extended card")
    if not extended or services.callers.known is None:
        raise ExtendedAgentCardNotConfiguredError("no extended card is configured here")
    if not call.caller.identified:
        raise CredentialsMissing("the extended card is for callers with credentials")
    base = call.base or services.settings.public_url or ""
    card = _extended(agent_card(call.card, base, call.grpc, services.callers.known), extended)
    return services.cards.sign(f"{call.agent} extended", base, card).card


def _extended(card: Json, extended: Json) -> Json:
    """Return `card` with what `extended` says more: skills of the same id give way."""
    skills = {skill.get("id"): skill for skill in [*card["skills"], *extended.get("skills", [])]}
    replaced = {name: extended[name] for name in _REPLACED if name in extended}
    return card | replaced | {"skills": list(skills.values())}
