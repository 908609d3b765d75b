"""The way to an embedded nats-server, which asks nobody for credentials."""

from headrace.settings import BusSettings


def without_login(settings: BusSettings, url: str) -> BusSettings:
    """Return `settings` for the embedded server at `url`: without what another one would ask."""
    fields = type(settings).model_fields
    unset = {
        name: field.get_default(call_default_factory=True)
        for name, field in fields.items()
        if name.startswith("nats_")
    }
    return settings.model_copy(update=unset | {"nats_url": url})
