"""The spans of model calls."""

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from opentelemetry.trace import Span, SpanKind

from headrace import tracing
from headrace.model.events import Json
from headrace.span_content import instructions_json, messages_json

_log = logging.getLogger(__name__)

type MakeMessages = Callable[[], Iterable[Json]]
"""Makes the messages of a model call, in the conventions' shape, if content is asked for."""


class ModelSpans:
    """Spans of model calls, from the hooks with which a library reports them."""

    def __init__(self, traceparent: str | None) -> None:
        """Begin without calls; spans are children of `traceparent`."""
        self._traceparent = traceparent
        self._open: dict[Hashable, Span] = {}

    def begin(
        self,
        call: Hashable,
        model: str,
        provider: str = "",
        operation: str = "chat",
        *,
        make_messages: MakeMessages = list,
        instructions: str = "",
    ) -> None:
        """Start the span of a call.

        What is sent to the model is recorded if content is asked for: the messages that
        `make_messages` returns, and `instructions` if they are sent beside them.
        """
        if not tracing.is_enabled():
            return
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
        }
        span = self._open[call] = tracing.start_span(
            f"{operation} {model}".strip(),
            SpanKind.CLIENT,
            self._traceparent,
            {name: value for name, value in attributes.items() if value},
        )
        note_input(span, make_messages, instructions)

    def end(
        self,
        call: Hashable,
        model: str,
        usage: Mapping[str, Any],
        *,
        make_messages: MakeMessages = list,
    ) -> None:
        """End the span of a call.

        Args:
            call: The call.
            model: The model that responded; empty if it is unknown.
            usage: ``input_tokens`` and ``output_tokens``; empty if they are unknown.
            make_messages: Makes the response, which is recorded if content is asked for.
        """
        if (span := self._open.pop(call, None)) is None:
            return
        if model:
            span.set_attribute("gen_ai.response.model", model)
        for name in ("input_tokens", "output_tokens"):
            if usage.get(name) is not None:
                span.set_attribute(f"gen_ai.usage.{name}", usage[name])
        note_output(span, make_messages)
        span.end()

    def fail(self, call: Hashable, error_type: str = tracing.OTHER) -> None:
        """End the span of a call that failed."""
        if (span := self._open.pop(call, None)) is not None:
            tracing.note_error(span, error_type)
            span.end()

    def drop(self, call: Hashable) -> None:
        """Forget a call that was not made: its response came from the log."""
        self._open.pop(call, None)

    def close(self, error: BaseException | None = None) -> None:
        """End the spans of all open calls; those that have no end failed with `error`."""
        for call in list(self._open):
            self.fail(call, tracing.OTHER if error is None else type(error).__name__)


def note_input(span: Span, make_messages: MakeMessages, instructions: str = "") -> None:
    """Record on a model call's span what is sent to the model, if content is asked for."""
    _note_messages(span, "gen_ai.input.messages", make_messages)
    if instructions and tracing.captures_content():
        span.set_attribute("gen_ai.system_instructions", instructions_json(instructions))


def note_output(span: Span, make_messages: MakeMessages) -> None:
    """Record on a model call's span what the model responds, if content is asked for."""
    _note_messages(span, "gen_ai.output.messages", make_messages)


def _note_messages(span: Span, attribute: str, make_messages: MakeMessages) -> None:
    if not (tracing.captures_content() and span.is_recording()):
        return
    try:
        if messages := list(make_messages()):
            span.set_attribute(attribute, messages_json(messages))
    except Exception:  # noqa: BLE001 - the messages are a library's; the run continues without them
        _log.warning("could not record %s of a model call", attribute, exc_info=True)
