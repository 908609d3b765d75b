"""OpenAI's Responses API and chat completions, by OpenAI's client for Python."""

from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import openai

from headrace.model.nesting import MAX_DEPTH
from tests.support.doors.door import Answer, Hostile, Refusal

_NO_KEY = "none"


def client(url: str, token: str = "") -> openai.AsyncOpenAI:
    """Return a client of the gateway at `url` that repeats nothing by itself."""
    return openai.AsyncOpenAI(
        base_url=f"{url}/v1", api_key=token or _NO_KEY, max_retries=0, timeout=90
    )


async def _refusal(request: Awaitable[object]) -> Refusal:
    try:
        await request
    except openai.APIStatusError as error:
        return Refusal(type(error).__name__, error.message)
    raise AssertionError("it was not refused")


class _StreamedResponse:
    """A response as it is streamed."""

    def __init__(self, stream: Any, token: str, left: AsyncExitStack) -> None:  # noqa: ANN401  # of any event
        self._stream, self._token, self._left = stream, token, left
        self.text = self.response = ""
        self.numbers: list[int] = []

    @property
    def task(self) -> str:
        return self.response.split("_")[2]

    async def until(self, text: str) -> None:
        while text not in self.text:
            self._read(await anext(self._stream))

    async def rest(self) -> None:
        async for event in self._stream:
            self._read(event)
        assert self.numbers == list(range(len(self.numbers)))

    def _read(self, event: Any) -> None:  # noqa: ANN401  # any event
        if event.type == "error":
            raise ConnectionError(event.message)
        self.numbers.append(event.sequence_number)
        if event.type == "response.created":
            self.response = event.response.id
        elif event.type == "response.output_text.delta":
            self.text += event.delta

    async def resume(self, url: str) -> None:
        other = await self._left.enter_async_context(client(url, self._token))
        self._stream = await other.responses.retrieve(
            self.response, stream=True, starting_after=self.numbers[-1]
        )

    async def stop(self, url: str) -> None:
        async with client(url, self._token) as other:
            stopped = await other.responses.cancel(self.response)
        assert stopped.status == "cancelled"


class Responses:
    """The Responses API."""

    name = "openai-responses"
    can_resume = True
    hostile: Sequence[Hostile] = (
        Hostile("/v1/responses", b"{", 400, "is not JSON"),
        Hostile("/v1/responses", b"[]", 400, "must be a JSON object"),
        Hostile("/v1/responses", b'{"model": "echo", "input": 5}', 400, '"param":"input"'),
        Hostile("/v1/responses", b'{"model": 5, "input": "x"}', 400, '"param":"model"'),
        Hostile("/v1/responses", b'{"model": "", "input": "x"}', 400, '"param":"model"'),
        Hostile(
            "/v1/responses",
            b'{"model": "echo", "input": [{"role": "user", "content": [{"type": "x"}]}]}',
            400,
            "input[0].content[0].type",
        ),
        Hostile(
            "/v1/responses",
            b'{"model": "echo", "input": "x", "metadata": '
            + b"[" * (MAX_DEPTH + 1)
            + b"]" * (MAX_DEPTH + 1)
            + b"}",
            400,
            "metadata",
        ),
    )

    @asynccontextmanager
    async def begin(
        self, url: str, agent: str, text: str, token: str = ""
    ) -> AsyncIterator[_StreamedResponse]:
        async with AsyncExitStack() as left:
            one = await left.enter_async_context(client(url, token))
            stream = await one.responses.create(model=agent, input=text, stream=True)
            yield _StreamedResponse(stream, token, left)

    async def converse(self, url: str, agent: str, texts: Sequence[str]) -> list[str]:
        answers, previous = list[str](), ""
        async with client(url) as one:
            for text in texts:
                answer = await one.responses.create(
                    model=agent, input=text, previous_response_id=previous
                )
                previous = answer.id
                answers.append(answer.output_text)
        return answers

    async def send_file(self, url: str, agent: str, content: bytes) -> str:
        data = f"data:application/octet-stream;base64,{b64encode(content).decode()}"
        file = {"type": "input_file", "filename": "some.bin", "file_data": data}
        asked: Any = [{"role": "user", "content": [file]}]
        async with client(url) as one:
            return (await one.responses.create(model=agent, input=asked)).output_text

    async def refusal(self, url: str, agent: str, token: str = "") -> Refusal:
        async with client(url, token) as one:
            return await _refusal(one.responses.create(model=agent, input="hello"))

    async def can_read(self, url: str, task: str, agent: str, token: str) -> bool:
        async with client(url, token) as one:
            try:
                await one.responses.retrieve(f"resp_1_{task}_{agent}")
            except openai.NotFoundError:
                return False
        return True


class _StreamedCompletion:
    """A chat completion as it is streamed."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401  # of chunks
        self._stream = stream
        self.text = self.task = ""

    async def until(self, text: str) -> None:
        while text not in self.text:
            self._read(await anext(self._stream))

    async def rest(self) -> None:
        async for chunk in self._stream:
            self._read(chunk)

    def _read(self, chunk: Any) -> None:  # noqa: ANN401  # any chunk
        self.task = chunk.id.partition("_")[2]
        for choice in chunk.choices:
            self.text += choice.delta.content or ""

    async def resume(self, url: str) -> None:
        raise NotImplementedError(f"a chat completion can't go on at {url}")

    async def stop(self, url: str) -> None:
        assert url
        await self._stream.close()


class Chat:
    """Chat completions."""

    name = "openai-chat"
    can_resume = False
    hostile: Sequence[Hostile] = (
        Hostile("/v1/chat/completions", b"{", 400, "is not JSON"),
        Hostile("/v1/chat/completions", b'{"model": "echo"}', 400, '"param":"messages"'),
        Hostile(
            "/v1/chat/completions",
            b'{"model": "echo", "messages": [{"role": "user", "content": "x"}], "n": 2}',
            400,
            '"param":"n"',
        ),
        Hostile(
            "/v1/chat/completions",
            b'{"model": "echo", "messages": [{"role": "nobody", "content": "x"}]}',
            400,
            "messages[0].role",
        ),
    )

    @asynccontextmanager
    async def begin(
        self, url: str, agent: str, text: str, token: str = ""
    ) -> AsyncIterator[_StreamedCompletion]:
        messages: Any = [{"role": "user", "content": text}]
        async with client(url, token) as one:
            stream = await one.chat.completions.create(model=agent, messages=messages, stream=True)
            yield _StreamedCompletion(stream)

    async def converse(self, url: str, agent: str, texts: Sequence[str]) -> list[str]:
        messages, answers = list[Any](), list[str]()
        async with client(url) as one:
            for text in texts:
                messages.append({"role": "user", "content": text})
                answer = await one.chat.completions.create(model=agent, messages=messages)
                answers.append(answer.choices[0].message.content or "")
                messages.append({"role": "assistant", "content": answers[-1]})
        return answers

    async def send_file(self, url: str, agent: str, content: bytes) -> str:
        data = f"data:application/octet-stream;base64,{b64encode(content).decode()}"
        file = {"type": "file", "file": {"filename": "some.bin", "file_data": data}}
        asked: Any = [{"role": "user", "content": [file]}]
        async with client(url) as one:
            answer = await one.chat.completions.create(model=agent, messages=asked)
        return answer.choices[0].message.content or ""

    async def refusal(self, url: str, agent: str, token: str = "") -> Refusal:
        asked: Any = [{"role": "user", "content": "hello"}]
        async with client(url, token) as one:
            return await _refusal(one.chat.completions.create(model=agent, messages=asked))

    async def can_read(self, url: str, task: str, agent: str, token: str) -> bool:
        return await Responses().can_read(url, task, agent, token)


@asynccontextmanager
async def _watched(url: str, agent: str, task: str) -> AsyncIterator[Answer]:
    async with AsyncExitStack() as left:
        one = await left.enter_async_context(client(url))
        stream = await one.responses.retrieve(f"resp_1_{task}_{agent}", stream=True)
        yield _StreamedResponse(stream, "", left)


def watch(url: str, agent: str, task: str) -> list[AbstractAsyncContextManager[Answer]]:
    """Follow a task that another door began."""
    return [_watched(url, agent, task)]
