"""A conversation at the terminal: messages, answers, and what Ctrl-C does."""

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.model.task_report import RUN_ENDED_NAMES, TERMINAL_NAMES
from headrace_cli.gateway import Gateway, agent_of, command_line
from headrace_cli.stream_output import StreamOutput
from headrace_cli.tables import one_line, replace_unencodable

if TYPE_CHECKING:
    from headrace.client import Client, ClientTask, TaskStream
    from headrace.model.events import Json

_WAITING = "input-required"


class ChatSession:
    """Sends messages and shows what follows, one turn after the other."""

    def __init__(
        self,
        gateway: Gateway,
        agent: str | None,
        output: StreamOutput,
        *,
        task: str = "",
        context: str = "",
    ) -> None:
        """Begin a session with an agent, or continue `task` or `context`."""
        self._gateway, self._output = gateway, output
        self.agent = agent
        self.task = task
        """The task that the next message continues; empty: it begins a new one."""
        self.shown_task = task
        """The task of the last turn."""
        self.context = context
        self._stream: TaskStream | None = None
        self._interrupts: list[Json] = []
        """The declared questions that are still to be answered."""
        self._answered: dict[str, Any] = {}

    @property
    def waits_for_answer(self) -> bool:
        """Whether the agent waits for an answer."""
        return bool(self.task) and self._stream is not None and self._stream.state == _WAITING

    def send(self, text: str, files: Sequence[Path] = ()) -> None:
        """Send a message and show its answer to the end of the run.

        If the agent asks several questions at once, each text answers one, and the last one sends
        all answers.

        Raises:
            RequestFailed: the gateway refused, or did not answer.
            KeyboardInterrupt: Ctrl-C; the task continues.
        """
        answers = self._answers(text)
        if self._interrupts:
            self._show_which_question()
            return

        async def work(client: "Client") -> None:
            if self.task and self.agent is None:
                self.agent = await client.agent_of(self.task)
            self._stream = client.stream(
                self.agent,
                "" if answers else text,
                task=self.task or None,
                context=self.context or None,
                files=files,
                answers=answers,
            )
            await self._follow(client, self._stream)

        self._at_gateway(work)

    def send_for_later(self, text: str, files: Sequence[Path], start_at: str) -> "ClientTask":
        """Send a message whose run begins at `start_at`, and return its task.

        Raises:
            RequestFailed: the gateway refused, or did not answer.
        """

        async def work(client: "Client") -> "ClientTask":
            agent = await agent_of(client, self.agent, self.task) if self.task else self.agent
            return await client.send(
                agent,
                text,
                task=self.task or None,
                context=self.context or None,
                files=files,
                start_at=start_at,
            )

        return self._at_gateway(work)

    def resume(self, after: str = "") -> None:
        """Show the task from now on, or after a cursor, to the end of its run.

        Raises:
            RequestFailed, KeyboardInterrupt: as `send`.
        """

        async def work(client: "Client") -> None:
            self.agent = await agent_of(client, self.agent, self.task)
            found = await client.get(self.agent, self.task)
            self.context = found.context
            # A task that waits has no more events until it is answered.
            if not after and found.state in RUN_ENDED_NAMES:
                await self._output.show_ended(found)
                if found.state in TERMINAL_NAMES:
                    self.task = ""
                    self._output.show_feedback(await client.feedback(self.agent, found.id))
                return
            self._stream = client.resume(self.agent, self.task, after)
            await self._follow(client, self._stream)

        self._at_gateway(work)

    def cancel(self) -> None:
        """Cancel the task of the last turn.

        Raises:
            RequestFailed: the gateway refused, or did not answer.
        """

        async def work(client: "Client") -> None:
            agent = await agent_of(client, self.agent, self.shown_task)
            ended = await client.cancel(agent, self.shown_task)
            self._output.show(
                {"statusUpdate": {"taskId": ended.id, "status": ended.task["status"]}}
            )

        self._at_gateway(work)
        self.task = ""

    def leave_question(self) -> None:
        """Say how to answer the question that the agent waits for, if there is one."""
        if self.waits_for_answer:
            self._output.show_how_to_answer(self.task)

    def leave(self) -> None:
        """End the output after Ctrl-C, and show the commands that resume and cancel the task."""
        self._output.end()
        if task := self.shown_task:
            url = self._gateway.url
            for line in (
                f"task {task} continues",
                f"  resume it: {command_line('chat', url)} --task {task}",
                f"  follow it: {command_line('tail', url)} {task}",
                f"  cancel it: {command_line('cancel', url)} {task}",
            ):
                click.echo(one_line(line), err=True)

    async def _follow(self, client: "Client", stream: "TaskStream") -> None:
        try:
            await self._output.follow(client, stream)
        finally:
            self.shown_task, self.context = stream.task, stream.context or self.context
        self.task = stream.task if stream.state == _WAITING else ""
        self._interrupts = [one for one in stream.interrupts if "id" in one]
        self._answered = {}
        self._show_which_question()

    def _show_which_question(self) -> None:
        """Show which of several questions the next text answers."""
        total = len(self._answered) + len(self._interrupts)
        if self._interrupts and total > 1:
            [one, *_] = self._interrupts
            question = one.get("message") or one["id"]
            self._output.remark(f"question {len(self._answered) + 1} of {total}: {question}")

    def _answers(self, text: str) -> dict[str, Any]:
        """Take the text as the answer to the next declared question, if there is one.

        Returns the answers to all of them with the last one.
        """
        if self._interrupts:
            self._answered[self._interrupts.pop(0)["id"]] = _value(text)
        if self._interrupts:
            return {}
        answers, self._answered = self._answered, {}
        return answers

    def _at_gateway[Result](self, work: "Callable[[Client], Awaitable[Result]]") -> Result:
        return self._gateway.ask(work, self.agent, self.task or self.shown_task)


def _value(text: str) -> Any:  # noqa: ANN401  # any JSON
    """Return JSON that is not just a number or a string as such, and other text as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (bool, dict, list)) else text


def is_interactive() -> bool:
    """Return whether a user can answer: stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def read_message(prompt: str = "> ") -> str | None:
    """Return the next message that is typed; None: the conversation is over (Ctrl-D, Ctrl-C).

    After a prompt on a terminal, the line can be edited, and earlier ones come back with the arrow
    keys. Messages may also come through a pipe, then without a prompt.
    """
    is_typed = sys.stdin.isatty()
    if is_typed and prompt:
        with suppress(ImportError):  # Builds of Python without it read plain lines.
            import_module("readline")  # From now on `input` reads through it.
    replace_unencodable(sys.stdin)
    try:
        return input(prompt if is_typed else "")
    except (EOFError, KeyboardInterrupt):
        if is_typed:
            click.echo()
        return None
