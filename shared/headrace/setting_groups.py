"""What a setting is for, stated in its annotation: ``replicas: Annotated[int, SIZE] = 1``.

The page of settings has a table for each group. A setting without one is best left alone.
"""

from typing import NamedTuple


class SettingGroup(NamedTuple):
    """A section of the page of settings."""

    title: str
    about: str
    """When a reader needs it; a sentence or two in Markdown."""


MUST_SET = SettingGroup(
    "Must set",
    "What each deployment has values of its own for. `headrace dev` needs none of them.",
)
LOGIN = SettingGroup(
    "Other logins and TLS",
    "Set the ones that your NATS and Redis ask for: one way to log in, and certificates for TLS.",
)
CHOICE = SettingGroup("Choose", "What the fleet offers, and to whom.")
SIZE = SettingGroup("Size", "What grows with your traffic. [Capacity](capacity.md) has figures.")
LIMIT = SettingGroup(
    "Limits",
    "What one client, owner or agent may use. [Back-pressure](back-pressure.md) explains what a "
    "caller sees beyond a limit.",
)
RETENTION = SettingGroup(
    "Retention", "How long data stays. [Retention](run/retention.md) lists what is kept where."
)
OTHER = SettingGroup("Leave alone", "The defaults suit. Change one for a reason that you measured.")

SETTING_GROUPS = (MUST_SET, LOGIN, CHOICE, SIZE, LIMIT, RETENTION, OTHER)
"""In the order of the page."""


def group_of(metadata: list[object]) -> SettingGroup:
    """Return the group that a field's metadata states, or `OTHER`."""
    return next((one for one in metadata if isinstance(one, SettingGroup)), OTHER)
