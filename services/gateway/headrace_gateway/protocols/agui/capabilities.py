"""An agent's capabilities in AG-UI's format: its own declarations over the gateway's defaults."""

import logging

from ag_ui.core import AgentCapabilities
from pydantic import ValidationError

from headrace.directory import AgentCard
from headrace.model.events import Json

_log = logging.getLogger(__name__)

_TRANSPORT = {"streaming": True, "websocket": True, "httpBinary": True, "resumable": True}
_KINDS = {
    "image": "image/",
    "audio": "audio/",
    "video": "video/",
    "pdf": "application/pdf",
    "file": "application/octet-stream",
}


def capabilities(card: AgentCard) -> Json:
    """Return the agent's AgentCapabilities.

    The card comes from a worker, so a category that is invalid in the protocol is omitted.
    """
    found = _of_every_agent(card)
    for category, declared in card.capabilities.items():
        merged = {**found.get(category, {}), **declared} if isinstance(declared, dict) else declared
        try:
            checked = AgentCapabilities.model_validate({category: merged})
        except ValidationError as error:
            _log.warning("capabilities of %s: skipping %s: %s", card.name, category, error)
            continue
        found |= checked.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found


def _of_every_agent(card: AgentCard) -> Json:
    return {
        "identity": _identity(card),
        "transport": _TRANSPORT,
        "output": {"supportedMimeTypes": card.output_modes},
        "multimodal": {"input": {kind: _takes(card, mode) for kind, mode in _KINDS.items()}},
    }


def _identity(card: AgentCard) -> Json:
    """Return the agent's identity; AG-UI has no fields for id and icon, so these are metadata."""
    shown = {
        "documentationUrl": card.documentation_url,
        "provider": card.provider.organization if card.provider else "",
    }
    metadata = {"id": card.name, "iconUrl": card.icon_url}
    return {
        "name": card.title,
        "type": "headrace",
        "description": card.description,
        "version": card.version,
        "metadata": {key: value for key, value in metadata.items() if value},
        **{key: value for key, value in shown.items() if value},
    }


def _takes(card: AgentCard, wanted: str) -> bool:
    """Return whether one of the agent's input modes covers the `wanted` media type."""
    main = wanted.partition("/")[0]
    return any(mode in {"*/*", f"{main}/*"} or mode.startswith(wanted) for mode in card.input_modes)
