"""``card/get``, which A2A itself has only as a page: an agent's card."""

from headrace.model.events import Json
from headrace_gateway.call import Call
from headrace_gateway.protocols.a2a.cards import agent_card
from headrace_gateway.protocols.a2a.wording import Versions
from headrace_gateway.services import Services


def card_get(services: Services, call: Call, versions: Versions) -> Json:
    """Return the asked agent's signed card as its page does: for clients of all `versions`."""
    base = call.base or services.settings.public_url or ""
    said = agent_card(call.card, base, call.grpc, services.callers.known)
    return {"agent": versions.card(services.cards.sign(call.agent, base, said).card)}
