"""Agent discovery: the list of agents, the AI Catalog, the well-known pages and the cards."""

from collections.abc import Iterable
from email.utils import formatdate
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.directory import AgentCard
from headrace.model import json_text
from headrace.model.events import Json
from headrace.signing import MAX_AGE
from headrace_gateway.call import AGENT
from headrace_gateway.protocols.a2a.cards import GET_CARD, agent_path, shown, signed_card
from headrace_gateway.protocols.a2a.errors import RestErrors
from headrace_gateway.protocols.a2a.versions import Versions, forms_of
from headrace_gateway.protocols.hector import shapes
from headrace_gateway.refusals import AgentUnknown
from headrace_gateway.server.json_response import NO_STORE, cacheable, json_response, revalidated
from headrace_gateway.server.open_requests import Endpoint
from headrace_gateway.server.public_url import mounted_at, public_url
from headrace_gateway.services import Services
from headrace_gateway.signed_cards import JWKS_PATH, SignedCard

CATALOG_PATH = "/.well-known/ai-catalog.json"
CATALOG_TYPE = "application/ai-catalog+json"

_CARD_TYPE = "application/a2a-agent-card+json"

CARD_MAX_AGE = 60
"""Seconds for which a card may be cached."""


class Discovery:
    """The discovery pages."""

    def __init__(self, services: Services, versions: Versions, errors: RestErrors) -> None:
        """Serve the agents in the directory to clients of all `versions`, or in Hector's shapes."""
        self._versions, self._errors = versions, errors
        self._settings, self._directory = services.settings, services.directory
        self._services = services
        self._callers = services.callers
        self._signing = services.signing

    def routes(self) -> list[Route]:
        """Return the routes of all pages."""
        card, map_errors = "/.well-known/agent-card.json", self._errors.map_errors
        old = "/.well-known/agent.json"  # of A2A before 0.3
        pages = {
            "/v1/agents": self._list,
            "/v1/agents/": self._list,
            "/.well-known/a2a": self._service,
            CATALOG_PATH: self._catalog,
            "/.well-known/a2a/agents/{agent}": self._agent,
            AGENT: self._card,
            f"{AGENT}/": self._card,
            f"{AGENT}{card}": self._card,
            f"{AGENT}{old}": self._card,
            card: self._card,
            old: self._card,
            "/": self._card,
            f"/v1/agents{card}": self._relative,
            f"/v1/agents{old}": self._relative,
        }
        return [
            Route(JWKS_PATH, map_errors(self._key_set), methods=["GET"]),
            *(
                Route(path, map_errors(self._guarded(page)), methods=["GET"])
                for path, page in pages.items()
            ),
        ]

    def _guarded(self, page: Endpoint) -> Endpoint:
        """Return `page` with a check that the caller may read it."""

        async def guarded(request: Request) -> ASGIApp:
            self._callers.reader_of(request.headers)
            return await page(request)

        return guarded

    async def _list(self, request: Request) -> Response:
        """Return every agent, and whether a worker runs it now."""
        base = public_url(request, self._settings)
        agents = [self._entry(card, base, mounted_at(request)) for card in self._directory.cards()]
        return json_response({"agents": agents}, headers=NO_STORE)

    def _entry(self, card: AgentCard, base: str, root: str) -> Json:
        return {
            **_named(card, root),
            "description": card.description,
            "version": card.version,
            **shown(card),
            "available": self._directory.available(card.name),
            "default": card.name == self._services.default_agent,
            "card": f"{base}{agent_path(card.name)}/.well-known/agent-card.json",
        }

    async def _service(self, request: Request) -> Response:
        agents = [_named(card, mounted_at(request)) for card in self._directory.cards()]
        return cacheable(request, {"agents": agents}, 0)

    async def _catalog(self, request: Request) -> Response:
        await self._services.cards.ready()
        base, cards = public_url(request, self._settings), self._directory.cards()
        providers = {card.provider.organization for card in cards if card.provider is not None}
        # The agents of one provider are that provider's catalog.
        catalog = _ai_catalog(base, cards, providers.pop() if len(providers) == 1 else "")
        content = self._services.cards.signed_catalog(base, catalog)
        return Response(json_text.encode(content), 200, NO_STORE, CATALOG_TYPE)

    async def _agent(self, request: Request) -> Response:
        card = self._card_of(request)
        signed = await signed_card(self._services, request, card)
        if forms_of(request).shapes:
            found = {"agent": signed.card, "declared": card.capabilities}
            return json_response(shapes.answered(GET_CARD, found))
        content = {"agent": await self._readable(signed.card)}
        return self._kept(request, card, signed, content)

    async def _card(self, request: Request) -> Response:
        card = self._card_of(request)
        signed = await signed_card(self._services, request, card)
        return self._kept(request, card, signed, await self._readable(signed.card))

    async def _relative(self, request: Request) -> Response:  # noqa: ARG002 - a route
        """Refuse a card's path that was resolved against an agent's URL without its slash."""
        raise AgentUnknown.unnamed()

    async def _readable(self, card: Json) -> Json:
        return await self._versions.card(card, self._services.default_agent)

    def _kept(
        self, request: Request, card: AgentCard, signed: SignedCard, content: Json
    ) -> Response:
        """Return a response that clients may cache and then revalidate."""
        candidate = self._directory.route(card.name).candidate
        known = self._callers.known
        whose = "public" if known is None or known.public_cards else "private"
        headers = {
            "ETag": signed.etag,
            "Last-Modified": formatdate(signed.modified, usegmt=True),
            "Cache-Control": f"{whose}, max-age={CARD_MAX_AGE}",
            # The console has the root path where HTML is asked for.
            "Vary": ", ".join(["Accept", *(candidate.headers if candidate else ())]),
        }
        return revalidated(request, json_text.encode(content), headers)

    async def _key_set(self, request: Request) -> Response:
        await self._signing.ready()
        return cacheable(request, self._signing.key_set(), MAX_AGE)

    def _card_of(self, request: Request) -> AgentCard:
        stated = request.path_params.get("agent")
        name = stated or self._services.default_agent
        if (card := self._directory.card(name)) is None:
            raise AgentUnknown.called(name, at_root=stated is None)
        return self._directory.chosen_card(name, "", request.headers) or card


def _named(card: AgentCard, root: str) -> Json:
    return {"id": card.name, "name": card.title, "url": root + agent_path(card.name)}


def _ai_catalog(base: str, cards: Iterable[AgentCard], host: str) -> Json:
    """Return the AI Catalog (specification 0.9) of the agents with these cards.

    An entry repeats nothing that is in a card, as the specification has it.

    Args:
        base: Scheme and host of the agents' URLs.
        cards: The agents' cards.
        host: What the operator is called; empty: as the host is.
    """
    name = urlsplit(base).hostname or ""
    return {
        "specVersion": "0.9",
        "host": {"displayName": host or name, "identifier": name},
        "entries": [_catalog_entry(base, name, card) for card in cards],
    }


def _catalog_entry(base: str, host: str, card: AgentCard) -> Json:
    tags = {tag for skill in card.skills for tag in skill.get("tags") or ()}
    return {
        "identifier": f"urn:air:{host}:agent:{card.name}",
        "type": _CARD_TYPE,
        "url": f"{base}{agent_path(card.name)}/.well-known/agent-card.json",
        **({"tags": sorted(tags)} if tags else {}),
    }
