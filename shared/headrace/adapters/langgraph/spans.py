"""The spans of a graph's model calls, from LangChain's callbacks."""

from collections.abc import Mapping
from typing import Any, override

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables.config import merge_configs

from headrace.adapters.model_spans import MakeMessages, ModelSpans
from headrace.adapters.span_messages import CALLED, STOP, of_chat, response_of
from headrace.model.events import Json


class LangGraphSpans(BaseCallbackHandler):
    """Makes a span of each call of a model, also of calls whose messages are not shown."""

    run_inline = True

    def __init__(self, traceparent: str | None) -> None:
        """Make children of `traceparent`."""
        self._calls = ModelSpans(traceparent)

    def added_to(self, settings: Any) -> Any:  # noqa: ANN401  # a RunnableConfig
        """Return the configuration with this handler beside those that it has."""
        beside: Any = {"callbacks": settings.get("callbacks")}
        merged = merge_configs(beside, {"callbacks": [self]})
        return {**settings, "callbacks": merged["callbacks"]}

    def close(self) -> None:
        """End the spans of calls whose end was not reported, because the run was cancelled."""
        self._calls.close()

    @override
    def on_chat_model_start(
        self, serialized: Any, messages: list[list[BaseMessage]], *, run_id: Any, **about: Any
    ) -> None:
        self._begin(run_id, about, "chat", lambda: of_chat(_openai(*messages[0])))

    @override
    def on_llm_start(
        self, serialized: Any, prompts: list[str], *, run_id: Any, **about: Any
    ) -> None:
        messages = [{"role": "user", "content": prompt} for prompt in prompts]
        self._begin(run_id, about, "text_completion", lambda: of_chat(messages))

    @override
    def on_llm_end(self, response: LLMResult, *, run_id: Any, **_: Any) -> None:
        made = next((one for several in response.generations for one in several), None)
        message = made.message if isinstance(made, ChatGeneration) else None
        if not isinstance(message, AIMessage):
            text = "" if made is None else made.text
            self._calls.end(run_id, "", {}, make_messages=lambda: response_of(text, [], STOP))
            return
        about = message.response_metadata
        used = dict(message.usage_metadata or {})
        self._calls.end(
            run_id, about.get("model_name") or "", used, make_messages=lambda: _response(message)
        )

    @override
    def on_llm_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        self._calls.fail(run_id, type(error).__name__)

    def _begin(
        self,
        call: Any,  # noqa: ANN401  # a UUID
        about: Mapping[str, Any],
        operation: str,
        make_messages: MakeMessages,
    ) -> None:
        named = about.get("metadata") or {}
        model, provider = named.get("ls_model_name") or "", named.get("ls_provider") or ""
        self._calls.begin(call, model, provider, operation, make_messages=make_messages)


def _openai(*messages: BaseMessage) -> list[Any]:
    return list(convert_to_openai_messages(messages))


def _response(message: AIMessage) -> list[Json]:
    """Return a response as a message in a span."""
    [shown] = of_chat(_openai(message))
    stated = message.response_metadata.get("finish_reason") or ""
    return response_of("", shown["parts"], stated or (CALLED if message.tool_calls else STOP))
