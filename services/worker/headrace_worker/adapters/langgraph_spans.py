"""The spans of a graph's model calls, from LangChain's callbacks."""

from collections.abc import Mapping
from typing import Any, override

from headrace_worker.adapters.extras import needs
from headrace_worker.spans import ModelSpans

with needs("langgraph"):
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, LLMResult
    from langchain_core.runnables.config import merge_configs


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
    def on_chat_model_start(self, *_: Any, run_id: Any, **about: Any) -> None:
        self._begin(run_id, about, "chat")

    @override
    def on_llm_start(self, *_: Any, run_id: Any, **about: Any) -> None:
        self._begin(run_id, about, "text_completion")

    @override
    def on_llm_end(self, response: LLMResult, *, run_id: Any, **_: Any) -> None:
        made = next((one for several in response.generations for one in several), None)
        message = made.message if isinstance(made, ChatGeneration) else None
        if not isinstance(message, AIMessage):
            self._calls.end(run_id, "", {})
            return
        model = message.response_metadata.get("model_name") or ""
        self._calls.end(run_id, model, dict(message.usage_metadata or {}))

    @override
    def on_llm_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        self._calls.fail(run_id, type(error).__name__)

    def _begin(self, call: Any, about: Mapping[str, Any], operation: str) -> None:  # noqa: ANN401  # a UUID
        named = about.get("metadata") or {}
        model, provider = named.get("ls_model_name") or "", named.get("ls_provider") or ""
        self._calls.begin(call, model, provider, operation)
