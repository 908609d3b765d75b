"""The spans of an attempt: its own, and those of its tool calls."""

import logging
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind

from headrace import tracing
from headrace.model.events import TRACEPARENT
from headrace.model.run import Run
from headrace.model.task import FAILED
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
    """The span of an attempt. It is invalid, and costs nothing, where traces are not exported."""

    def __init__(self, span: Span, request_traceparent: str | None, usage: UsageTotals) -> None:
        """Record at the end the `usage` that is added from now on."""
        self._span, self._usage = span, usage
        self._finish_reason = "stop"
        self._input_tokens, self._output_tokens = usage.input_tokens, usage.output_tokens
        self.own_traceparent = tracing.traceparent_of(span)
        """W3C trace context of the span; None if traces are not exported."""
        captures = self.own_traceparent is not None and tracing.captures_content()
        self.texts = BoundedText() if captures else None
        """The attempt's output, collected for the span; None if content is not captured."""
        self.tools = (
            ToolSpans(self.own_traceparent, captures_content=captures)
            if self.own_traceparent
            else None
        )
        """Spans of the tool calls; None if traces are not exported."""
        self.traceparent = self.own_traceparent or request_traceparent
        """W3C trace context for what the agent does: the span's, or else the request's."""

    @classmethod
    def start(cls, run: Run, attempt: int, recovered: RecoveredRun) -> "AttemptSpan":
        """Start the span as a child of the request's, linked to the last attempt's."""
        parent = recovered.metadata.get(TRACEPARENT) or run.terms.traceparent
        if not tracing.is_enabled():
            return cls(trace.INVALID_SPAN, parent, recovered.usage)
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
        return cls(span, parent, recovered.usage)

    def lasting(self) -> AbstractContextManager[None]:
        """Make the span the current one in the block, and end it with the block."""
        return tracing.CurrentSpan(self._span, self._note_totals)

    def _note_totals(self) -> None:
        if used := self._usage_attributes():
            self._span.set_attributes(used)
        if self.texts is not None:
            output = output_json(self.texts.text, self._finish_reason)
            self._span.set_attribute("gen_ai.output.messages", output)

    def note_end(self, state: str, error: BaseException | None) -> None:
        """Record the state in which the run ends, and for a failed one the agent's `error`."""
        self._span.set_attribute("headrace.task.state", state)
        if state == FAILED:
            self.note_error(error)

    def note_error(self, error: BaseException | str | None) -> None:
        """Record that the attempt failed: the class of `error`, or the reason."""
        self._finish_reason = "error"
        kind = error if isinstance(error, str) else type(error).__name__
        tracing.note_error(self._span, tracing.OTHER if error is None else kind)

    def _usage_attributes(self) -> dict[str, int | str]:
        usage = self._usage
        if not usage.is_reported:
            return {}
        found: dict[str, int | str] = {
            "gen_ai.usage.input_tokens": usage.input_tokens - self._input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens - self._output_tokens,
            "gen_ai.response.model": usage.model,
        }
        return {name: value for name, value in found.items() if value}


@lru_cache(maxsize=1024)
def _template(agent: str) -> SpanTemplate:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}
    return SpanTemplate(f"invoke_agent {agent}", SpanKind.INTERNAL, attributes)
