"""Collection of what an attempt emits, for its span: used only where content is asked for.

Subclasses do it, so that an attempt without content in its span calls nothing for it.
"""

from typing import override

from headrace.model.events import Draft
from headrace.sdk.emit import Artifact, Ending, Output, RelayedMessage, Text, ToolArguments
from headrace.span_content import BoundedText, texts_of
from headrace_worker.encoder import Encoder, End, Endings


class RecordingEncoder(Encoder):
    """An encoder that adds the texts it encodes to `texts`, which must be set."""

    texts: BoundedText

    @override
    def chunk(self, text: str) -> Draft | None:
        draft = super().chunk(text)
        if draft is not None:
            self.texts.add(text)
        return draft

    @override
    def drafts(self, output: Output) -> list[Draft]:
        if isinstance(output, ToolArguments) and self._tool_spans is not None:
            # Before the call's span begins, which the last piece does.
            self._tool_spans.add_arguments(output.id, output.delta)
        made = super().drafts(output)
        match output:
            case Text():
                self.texts.add(output.text)
            case Artifact() | RelayedMessage():
                for text in texts_of(output.parts):
                    self.texts.add(text)
        return made


class RecordingEndings(Endings):
    """A builder of last events that adds their texts to `texts`, which must be set."""

    texts: BoundedText

    @override
    def of(self, output: Ending) -> End:
        end = super().of(output)
        for text in texts_of((end.message or {}).get("parts", ())):
            self.texts.add(text)
        return end
