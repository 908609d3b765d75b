"""Settings for an embedded nats-server, which requires no credentials."""

from headrace.settings import BusSettings


def without_login(settings: BusSettings, url: str) -> BusSettings:
    """Return `settings` for the embedded server at `url`, without any credentials."""
    fields = type(settings).model_fields
    unset = {
        name: field.get_default(call_default_factory=True)
        for name, field in fields.items()
        if name.startswith("nats_")
    }
    return settings.model_copy(update=unset | {"nats_url": url})
