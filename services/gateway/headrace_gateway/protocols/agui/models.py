"""AG-UI's own models, loaded with its first request: they are a large import."""

from typing import TYPE_CHECKING, NamedTuple

from headrace.lazy import Lazy

if TYPE_CHECKING:
    from ag_ui.core import AgentCapabilities, Message, RunAgentInput
    from pydantic import TypeAdapter


class AguiModels(NamedTuple):
    """The models that validate what clients and agents send."""

    run_input: "type[RunAgentInput]"
    capabilities: "type[AgentCapabilities]"
    messages: "TypeAdapter[list[Message]]"


def _load() -> AguiModels:
    from ag_ui.core import AgentCapabilities, Message, RunAgentInput  # noqa: PLC0415 - see above
    from pydantic import TypeAdapter  # noqa: PLC0415 - see above

    return AguiModels(RunAgentInput, AgentCapabilities, TypeAdapter(list[Message]))


MODELS = Lazy(_load)
"""Each request awaits them before it reads its input or folds a log."""
