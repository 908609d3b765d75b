"""pydantic-ai's durable execution on steps: requests to models and calls of tools are recorded."""

from collections.abc import Awaitable, Callable
from typing import Any, override

from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    DurableOperationId,
    JournalCallableOperationBackend,
    RoleBasedOperationConfig,
    ToolsetCallToolId,
)

from headrace.sdk.active_run import active_run, required_run
from headrace.sdk.context import runtime_of
from headrace.sdk.step_call import StepCall
from headrace.sdk.step_values import digest_of


class FleetDurability(BaseDurabilityCapability[Any]):  # type: ignore[misc]  # loaded lazily
    """A capability with which requests to models and calls of tools are steps of the run.

    ``Agent(…, name="clerk", capabilities=[FleetDurability()])``, for agent functions that call
    `Agent.run`. An attempt that takes over gets what is recorded, and asks no model again. The
    agent needs a name. Outside of a run, nothing is recorded. `pydantic_ai_agent` needs none: it
    continues from the log.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Headrace",
        durable_unit_noun="step",
        durable_container_noun="run",
        codec=JSON_CODEC,
    )

    @property
    @override
    def in_durable_context(self) -> bool:
        return active_run() is not None

    @override
    def get_durable_operation_backend(self) -> "_StepBackend":
        return _StepBackend(agent_name=self.name, config=_NOTHING)


_NOTHING: RoleBasedOperationConfig[None] = RoleBasedOperationConfig(
    model=None, event=None, capability=None, tool=None
)


class _StepBackend(JournalCallableOperationBackend[None]):  # type: ignore[misc]  # loaded lazily
    """Runs each operation as a step."""

    @override
    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: None,
    ) -> object:
        # Tools run side by side in any order; models are asked one after the other.
        is_tool = isinstance(operation_id, ToolsetCallToolId)
        alike = digest_of(cache_key[:2], {}) if is_tool else ""  # Name and arguments.
        call = StepCall(name=name, function=body, alike=alike)
        return await runtime_of(required_run("FleetDurability")).steps.run(call)
