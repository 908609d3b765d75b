"""Agents are declared by a decorator, registered once, found by name."""

import asyncio
import io
import sys
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from headrace import (
    Agent,
    Agents,
    Card,
    Emission,
    Limits,
    Provider,
    Retry,
    RunContext,
    Skill,
    adapters,
    agent,
)
from headrace.demo import agents as demo_agents
from headrace.demo import echo
from headrace.model.agent_card import AgentCard
from headrace.sdk.agent import AgentFunction
from headrace.sdk.errors import AgentReadTerminal, Misdeclared
from headrace_worker.load import load


async def my_function(_: RunContext) -> None:
    """Does nothing. And nothing else.

    At all.
    """


def test_an_agent_is_called_and_described_as_its_function_is() -> None:
    declared = agent()(my_function)
    assert declared.name == "my-function"
    assert declared.card.description == "Does nothing. And nothing else."


def test_a_card_has_what_the_decorator_states() -> None:
    card = agent(
        name="x",
        description="d",
        version="2.1",
        card=Card(
            skills=[Skill("s", "S", tags=["t"]), {"id": "raw"}],
            input_modes=["*/*"],
            output_modes=["text/markdown"],
        ),
        bare_message=True,
    )(my_function).card
    assert card.model_dump(exclude_defaults=True) == {
        "name": "x",
        "description": "d",
        "version": "2.1",
        "skills": [
            {"id": "s", "name": "S", "description": "S", "tags": ["t"], "examples": []},
            {"id": "raw"},
        ],
        "input_modes": ["*/*"],
        "output_modes": ["text/markdown"],
        "bare_message": True,
    }


def test_a_card_states_what_people_are_shown() -> None:
    card = agent(
        name="x",
        card=Card(
            display_name="An Agent",
            icon_url="https://a.example/icon.png",
            documentation_url="https://a.example/docs",
            provider=Provider(organization="Acme", url="https://acme.example"),
            skills=[Skill("draw", examples=["a cat"], input_modes=["text/plain"])],
        ),
    )(my_function).card
    assert (card.title, AgentCard(name="x").title) == ("An Agent", "x")
    assert AgentCard.decode("", card.encode()) == card
    assert card.skills == [
        {
            "id": "draw",
            "name": "draw",
            "description": "draw",
            "tags": ["draw"],
            "examples": ["a cat"],
            "inputModes": ["text/plain"],
        }
    ]


def _plain() -> None: ...


def _decorated(function: object, **how: object) -> Callable[[], Agent]:
    return lambda: agent(**how)(function)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (_decorated(_plain, name="plain"), "must take one argument, the RunContext"),
        (_decorated(my_function, name="no spaces"), "no spaces"),
        (_decorated(my_function, limits=Limits(concurrency=0)), "at least 1"),
        (_decorated(my_function, card=Card(icon_url="javascript:alert(1)")), "icon_url of agent"),
        (
            _decorated(my_function, card=Card(provider=Provider(organization="a", url="x"))),
            "card.provider.url of agent",
        ),
    ],
)
def test_what_cannot_work_is_reported_at_once(declare: Callable[[], Agent], words: str) -> None:
    with pytest.raises(Misdeclared, match=words):
        declare()


def test_an_agent_needs_no_parentheses() -> None:
    @agent
    async def my_shop(_: RunContext) -> AsyncIterator[Emission]:
        """Sell."""
        yield "x"

    assert (my_shop.name, my_shop.card.description, my_shop.streams) == ("my-shop", "Sell.", True)


def test_both_kinds_of_function_are_agents() -> None:
    async def streaming(_: RunContext) -> AsyncIterator[Emission]:
        yield "x"

    functions: list[AgentFunction] = [streaming, my_function]
    assert [agent()(function).streams for function in functions] == [True, False]


def test_two_agents_of_one_name_are_refused() -> None:
    other = agent(name="echo")(my_function)
    with pytest.raises(Misdeclared, match="'echo'"):
        Agents([echo, other])
    assert len(Agents([echo, echo])) == 1


def test_a_target_may_be_an_agent_several_or_a_registry() -> None:
    assert [a.name for a in load("headrace.demo:echo")] == ["echo"]
    assert load("headrace.demo:agents") is demo_agents
    assert [a.name for a in load(f"{__name__}:several")] == ["echo", "my-function"]
    assert [a.name for a in load(f"{__name__}:Namespace.inner")] == ["echo"]
    both = f"headrace.demo:counter,{__name__}:several"
    assert [a.name for a in load(both)] == ["counter", "echo", "my-function"]


def test_a_module_that_imports_what_is_missing_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_there.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(Misdeclared, match="half_there imports not_there_at_all"):
        load("half_there:agents")
    assert "half_there" not in sys.modules


@pytest.mark.parametrize(
    "package", [{"spoilt.py": "x = '\0'"}, {"spoilt/__init__.py": "'\0'", "spoilt/shop.py": ""}]
)
def test_an_imported_file_with_null_bytes_is_found_by_its_import(
    package: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {**package, "importer.py": "\nimport spoilt\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(Misdeclared, match=r"^importer imports a file .* \(importer\.py:2\)$"):
        load("importer:agents")
    with pytest.raises(
        Misdeclared, match=r"^spoilt\.shop imports a file that has null bytes; save"
    ):
        load("spoilt.shop:agents")
    assert {"importer", "spoilt"}.isdisjoint(sys.modules)


_WRONG: Any = (
    timedelta(seconds=5),
    None,
    "3",
    2.5,
    "soon",
    TimeoutError,
    Skill("shopping"),
    ["shopping"],
)

WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"limits": Limits(timeout=_WRONG[0])},
        "timeout .* must be a number of seconds, not timedelta",
    ),
    ({"retry": Retry(backoff=_WRONG[1])}, "backoff .* must be a number of seconds, not NoneType"),
    ({"retry": Retry(attempts=_WRONG[2])}, "attempts .* must be a whole number, not str"),
    ({"retry": Retry(attempts=_WRONG[3])}, "attempts .* must be a whole number, not float"),
    ({"limits": Limits(concurrency=True)}, "concurrency .* must be a whole number, not bool"),
    (
        {"limits": Limits(start_within=_WRONG[4])},
        "start_within .* must be a number of seconds, not str",
    ),
    ({"retry": Retry(on=_WRONG[5])}, "retry.on .* must be a tuple of classes of exceptions"),
    ({"retry": 3}, r"must be a Retry: write retry=Retry\(…\)"),
    ({"limits": {"timeout": 5}}, r"must be a Limits: write limits=Limits\(…\)"),
    ({"clean_up": "tidy"}, "clean_up .* must be an async function"),
    ({"description": 5}, "description: "),
    ({"card": Card(skills=_WRONG[6])}, r"card\.skills: "),
    ({"card": Card(skills=_WRONG[7])}, r"card\.skills\.0: "),
    ({"card": Card(skills=[Skill("x", tags="shop")])}, r"card\.skills\.0\.tags: .* valid list"),
    (
        {"card": Card(skills=[{"id": "x", "tag": ["shop"]}])},
        r"card\.skills\.0\.tag: a skill has id, name, description, tags, examples",
    ),
    ({"card": Card(output_modes=_WRONG[3])}, r"card\.output_modes: "),
    ({"card": Card(capabilities=_WRONG[7])}, r"card\.capabilities: "),
    ({"card": Card(extended=_WRONG[2])}, r"card\.extended: "),
    ({"card": {"icon_url": "x"}}, r"must be a Card: write card=Card\(…\)"),
    ({"follow_ups": "queue"}, "follow_ups: "),
]


@pytest.mark.parametrize(("options", "problem"), WRONG, ids=lambda value: str(value)[:30])
def test_an_option_of_another_type_is_refused_with_agent_and_line(
    options: dict[str, Any], problem: str
) -> None:
    line = rf"^[^\n]*{problem}[^\n]* \(test_agent\.py:\d+\)$"
    with pytest.raises(Misdeclared, match=line) as output:
        agent(name="shop", **options)(my_function)
    assert "agent 'shop'" in str(output.value)


UNKNOWN = [
    ("icon_url", r"; write card=Card\(icon_url=…\)"),
    ("timeout", r"; write limits=Limits\(timeout=…\)"),
    ("on", r"; write retry=Retry\(on=…\)"),
    ("verson", r"; did you mean version\?"),
    ("colour", "; an agent has name, description, [a-z_, ]+, interceptors"),
]


@pytest.mark.parametrize(("option", "remedy"), UNKNOWN)
def test_an_unknown_option_is_a_type_error_that_names_the_right_place(
    option: str, remedy: str
) -> None:
    message = rf"^unknown option '{option}' of agent 'shop'{remedy} \(test_agent\.py:\d+\)$"
    with pytest.raises(TypeError, match=message):
        _decorated(my_function, name="shop", **{option: 5})()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": "no spaces"}, "agent 'no spaces' must be"),
        ({"icon_url": "x"}, "unknown option"),
        ({"memory": "all"}, "the memory of agent 'model' must be one of 'context', 'task', 'none'"),
    ],
)
def test_a_mistake_in_an_adapters_call_is_located_where_the_author_calls_it(
    options: dict[str, Any], problem: str
) -> None:
    made: dict[str, Any] = {"name": "model", "model": "m", "base_url": "http://127.0.0.1:1"}
    with pytest.raises(Misdeclared, match=rf"^{problem}[^\n]* \(test_agent\.py:\d+\)$"):
        adapters.openai_agent(**(made | options))


@pytest.mark.parametrize("seconds", [inf, nan, 1e12])
@pytest.mark.parametrize("option", ["retry.backoff", "limits.timeout", "limits.start_within"])
def test_a_duration_that_leads_to_no_date_is_refused(option: str, seconds: float) -> None:
    group, name = option.split(".")
    made: Any = {"retry": Retry, "limits": Limits}[group]
    given: Any = {group: made(**{name: seconds})}
    with pytest.raises(
        Misdeclared, match=f"the {option} of agent 'shop' must .* at most 315360000 s"
    ):
        agent(name="shop", **given)(my_function)


def _reader(_: RunContext) -> str:
    return input("How many? ")


async def _async_reader(_: RunContext) -> str:
    return input("How many? ")  # noqa: ASYNC250 - the mistake


@pytest.mark.parametrize("function", [_reader, _async_reader])
async def test_an_agent_that_reads_the_terminal_gets_an_error_with_the_alternative(
    function: AgentFunction, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    place = r"InputRequired\('…'\) \(test_agent\.py:\d+\)$"
    with pytest.raises(AgentReadTerminal, match=place):
        await agent(name="shop")(function)("nails")
    assert capsys.readouterr().out == "How many? \n"


async def test_what_else_ends_early_stays_as_it_is() -> None:
    @agent
    async def shop(_: RunContext) -> str:
        raise asyncio.IncompleteReadError(b"", 7)

    with pytest.raises(asyncio.IncompleteReadError):
        await shop("nails")


several = [echo, agent()(my_function)]


class Namespace:
    """Holds an agent."""

    inner = echo
