"""The agent that CopilotKit's client asks for unless it is told another."""

from headrace_gateway.services import Services

DEFAULT = "default"
"""The name by which the client asks for it."""


def known_name(services: Services, stated: str) -> str:
    """Return the agent that `stated` names: the fleet's default agent for `DEFAULT`.

    An agent of that very name is meant if there is one.
    """
    is_alias = stated == DEFAULT and services.directory.card(DEFAULT) is None
    return services.default_agent if is_alias else stated
