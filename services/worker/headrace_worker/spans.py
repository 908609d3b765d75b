"""The spans of an attempt: its own, and those of its tool calls."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from opentelemetry.trace import Span, SpanKind

from headrace import tracing
from headrace.model.run import Run
from headrace.span_content import (
    BoundedText,
    input_json,
    output_json,
    value_json,
)
from headrace.tracing import Plain, SpanTemplate
from headrace_worker.recovery import RecoveredRun
from headrace_worker.usage import UsageTotals

_log = logging.getLogger(__name__)


class ToolSpans:
    """Spans from a call's complete arguments to its result, as the agent emits them.

    A call whose result the attempt does not emit has no span: the client executes it, or the
    attempt ended before.
    """

    def __init__(self, traceparent: str, *, captures_content: bool = False) -> None:
        """Begin without calls; spans are children of `traceparent`."""
        self._traceparent, self._captures_content = traceparent, captures_content
        self._open: dict[str, Span] = {}
        self._arguments: dict[str, BoundedText] = {}

    def add_arguments(self, call_id: str, piece: str) -> None:
        """Collect a piece of a call's arguments, to record them when they are complete."""
        self._arguments.setdefault(call_id, BoundedText()).add(piece)

    def begin(self, call_id: str, name: str, arguments: Any = None) -> None:  # noqa: ANN401  # any JSON
        """Start the span of the tool's call.

        `arguments` are recorded if content is asked for; collected pieces take precedence.
        """
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
        }
        if self._captures_content:
            pieces = self._arguments.pop(call_id, None)
            known = value_json(arguments) if pieces is None else pieces.json()
            attributes["gen_ai.tool.call.arguments"] = known
        self._open[call_id] = tracing.start_span(
            f"execute_tool {name}", SpanKind.INTERNAL, self._traceparent, attributes
        )

    def end(self, call_id: str, result: Any, *, has_failed: bool) -> None:  # noqa: ANN401  # any JSON
        """End the call's span, if it has one; `result` is recorded if content is asked for."""
        if (span := self._open.pop(call_id, None)) is None:
            return
        if self._captures_content:
            span.set_attribute("gen_ai.tool.call.result", value_json(result))
        if has_failed:
            tracing.note_error(span, tracing.OTHER)
        span.end()


class AttemptSpan:
    """The span of an attempt."""

    def __init__(self, span: Span, traceparent: str, used: UsageTotals | None) -> None:
        """Record what is used beyond `used`; the span's W3C trace context is `traceparent`."""
        self._span, self.traceparent = span, traceparent
        self._finish_reason = "stop"
        self._used = (used.input_tokens, used.output_tokens) if used else (0, 0)
        captures = tracing.captures_content()
        self.texts = BoundedText() if captures else None
        """The attempt's output, collected for the span; None if content is not captured."""
        self.tools = ToolSpans(traceparent, captures_content=captures)
        """Spans of the tool calls."""

    @classmethod
    def start(
        cls, run: Run, attempt: int, recovered: RecoveredRun, parent: str | None
    ) -> "AttemptSpan | None":
        """Start the span as a child of `parent`, the request's, linked to the last attempt's.

        None: this process exports no traces.
        """
        attributes: dict[str, Plain] = {
            "gen_ai.conversation.id": run.context,
            "headrace.task.id": run.key.task,
            "headrace.run": run.generation,
            "headrace.attempt": attempt,
        }
        if tracing.captures_content():
            attributes["gen_ai.input.messages"] = input_json(recovered.message)
        links = [recovered.traceparent] if recovered.traceparent else []
        span = tracing.start_span_of(_template(run.key.agent), parent, attributes, links)
        traceparent = tracing.traceparent_of(span)
        return None if traceparent is None else cls(span, traceparent, recovered.used)

    def lasting(self, used: Callable[[], UsageTotals | None]) -> AbstractContextManager[None]:
        """Make the span the current one in the block, and end it with the block.

        It records what the run has `used` then.
        """
        return tracing.CurrentSpan(self._span, lambda: self._note_totals(used()))

    def step(self, name: str) -> AbstractContextManager[None]:
        """Make a span of the agent's step `name` the current one in the block."""
        attributes = {"headrace.step.name": name}
        span = tracing.start_span(f"step {name}", SpanKind.INTERNAL, self.traceparent, attributes)
        return tracing.CurrentSpan(span)

    def memory_write(self, kind: str) -> AbstractContextManager[None]:
        """Make a span of a write to the memory of that `kind` the current one in the block."""
        attributes = {"headrace.memory.of": kind}
        span = tracing.start_span("memory write", SpanKind.INTERNAL, self.traceparent, attributes)
        return tracing.CurrentSpan(span)

    def _note_totals(self, used: UsageTotals | None) -> None:
        if used is not None:
            self._span.set_attributes(self._usage_attributes(used))
        if self.texts is not None:
            output = output_json(self.texts.text, self._finish_reason)
            self._span.set_attribute("gen_ai.output.messages", output)

    def note_end(self, state: str) -> None:
        """Record the state in which the run ends."""
        self._span.set_attribute("headrace.task.state", state)

    def note_error(self, error_type: str) -> None:
        """Record that the attempt failed; `error_type` is as of `error_type_of`, or a reason."""
        self._finish_reason = "error"
        tracing.note_error(self._span, error_type)

    def _usage_attributes(self, used: UsageTotals) -> dict[str, int | str]:
        input_tokens, output_tokens = self._used
        found: dict[str, int | str] = {
            "gen_ai.usage.input_tokens": used.input_tokens - input_tokens,
            "gen_ai.usage.output_tokens": used.output_tokens - output_tokens,
            "gen_ai.response.model": used.model,
        }
        return {name: value for name, value in found.items() if value}


def error_type_of(error: BaseException | None) -> str:
    """Return ``error.type`` of an attempt that failed with the agent's `error`, if there is one."""
    return tracing.OTHER if error is None else type(error).__name__


@lru_cache(maxsize=1024)
def _template(agent: str) -> SpanTemplate:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}
    return SpanTemplate(f"invoke_agent {agent}", SpanKind.INTERNAL, attributes)
