"""From headrace.yaml to agents."""

import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

import headrace
from headrace import Agent, Limits, Provider, RunContext, adapters, agent
from headrace.model.agent_card import SecurityScheme
from headrace_worker.config import Configuration, Unusable, build


@agent(description="Says nothing.", limits=Limits(timeout=5))
async def silent(_: RunContext) -> AsyncIterator[str]:
    yield ""


def count(text: str) -> int:
    """Count characters."""
    return len(text)


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("made_up_module")
    other = replace(silent, card=silent.card.model_copy(update={"name": "other"}))
    made.__dict__.update(silent=silent, both=[silent, other], number=5, count=count)
    monkeypatch.setitem(sys.modules, "made_up_module", made)


def configured(agents: dict[str, Any], **more: Any) -> Configuration:  # noqa: ANN401  # YAML
    return Configuration.model_validate({"agents": agents, **more})


def python(target: str = "made_up_module:silent", **more: Any) -> dict[str, Any]:  # noqa: ANN401  # YAML
    return {"type": "python", "target": target, **more}


def test_an_agent_in_code_has_the_properties_that_the_file_states() -> None:
    output = python(description="Says little.", limits={"concurrency": 3}, retry={"attempts": 1})
    [quiet] = build(configured({"quiet": output}))
    assert (quiet.name, quiet.card.description, quiet.limits.concurrency) == (
        "quiet",
        "Says little.",
        3,
    )
    assert (quiet.retry.attempts, quiet.limits.timeout) == (1, 5)
    assert quiet.function is silent.function


def test_one_agent_in_code_can_be_several() -> None:
    assert [one.name for one in build(configured({"a": python(), "b": python()}))] == ["a", "b"]


def test_a_model_is_an_agent() -> None:
    llm = {"model": "m", "base_url": "http://127.0.0.1:1/v1"}
    agents = {"talker": {"type": "openai", "llm": "default", "description": "Talks."}}
    [talker] = build(configured(agents, llms={"default": llm}))
    assert (talker.name, talker.card.description) == ("talker", "Talks.")


def test_a_model_gets_links_of_images_if_the_file_allows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = dict[str, Any]()
    openai_agent = adapters.openai_agent

    def kept(**options: Any) -> Agent:  # noqa: ANN401 - the adapter's
        given.update(options)
        return openai_agent(**options)

    monkeypatch.setattr(adapters, "openai_agent", kept)
    llm = {"model": "m", "base_url": "http://127.0.0.1:1/v1", "image_urls": True}
    build(configured({"talker": {"type": "openai", "llm": "default"}}, llms={"default": llm}))
    assert given["image_urls"] is True


def test_agents_elsewhere_are_agents() -> None:
    credentials = {"type": "oauth2", "client_id": "us", "client_secret": "s", "scopes": ["ask"]}
    nowhere = "http://127.0.0.1:1"
    agents = {
        "partner": {"type": "a2a", "url": nowhere, "credentials": credentials},
        "painter": {"type": "ag-ui", "url": nowhere, "headers": {"X-Key": "k"}},
    }
    assert [one.name for one in build(configured(agents))] == ["partner", "painter"]


def test_a_model_has_tools_in_code_and_of_servers() -> None:
    agents = {
        "talker": {
            "type": "openai",
            "model": {"model": "m", "base_url": "http://127.0.0.1:1"},
            "tools": ["count", "files", "search"],
        }
    }
    tools = {
        "count": {"type": "python", "target": "made_up_module:count"},
        "files": {"type": "mcp", "command": ["files-server", "--root", "/"], "only": ["read"]},
        "search": {"type": "mcp", "url": "http://127.0.0.1:1/mcp", "prefix": "web_"},
    }
    assert [one.name for one in build(configured(agents, tools=tools))] == ["talker"]


def test_who_may_ask_stands_in_the_card() -> None:
    schemes = {"key": {"type": "apiKey", "name": "X-Key", "in": "header"}}
    output = python(security={"schemes": schemes, "require": ["key"]})
    [one] = build(configured({"a": output}))
    assert one.card.security.require == ["key"]
    assert one.card.security.schemes == {"key": SecurityScheme(type="apiKey", name="X-Key")}


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (
            python("made_up_module:nobody"),
            "agents.a: module made_up_module has no attribute nobody",
        ),
        (
            python("made_up_module:numbr"),
            "agents.a: module made_up_module has no attribute numbr; did you mean number?",
        ),
        (python("no_such_module:x"), "agents.a: no module named no_such_module"),
        (
            python("tests.support.exits_at_import:x"),
            "agents.a: SystemExit: not to be imported (exits_at_import.py:5)",
        ),
        (python("made_up_module:number"), "agents.a: made_up_module:number is not an agent"),
        (
            python("made_up_module:both"),
            "agents.a.target: made_up_module:both must be one agent, not 2",
        ),
        ({"type": "openai"}, "agents.a: needs llm; declared: main, other"),
        (
            {"llm": "man"},
            "agents.a.llm: 'man' is not declared under llms; did you mean 'main'? allowed: main",
        ),
        (
            {"llm": "main", "tools": ["y"]},
            "agents.a.tools: 'y' is not declared under tools; allowed: count",
        ),
        (
            python(security={"require": ["x"]}),
            "agents.a.security.require: 'x' is not declared under schemes",
        ),
    ],
)
def test_fields_that_can_not_be_built_are_named(section: dict[str, Any], expected: str) -> None:
    llms = {name: {"model": "m", "base_url": "http://127.0.0.1:1"} for name in ("main", "other")}
    tools = {"count": {"type": "python", "target": "made_up_module:count"}}
    with pytest.raises(Unusable) as refused:
        build(configured({"a": section}, llms=llms, tools=tools))
    assert expected in str(refused.value)


def test_what_a_module_imports_to_make_agents_is_not_suggested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(vars(sys.modules["made_up_module"]), "agent", headrace.agent)
    with pytest.raises(Unusable) as refused:
        build(configured({"a": python("made_up_module:agents")}))
    assert str(refused.value).endswith("module made_up_module has no attribute agents")


def test_all_fields_that_can_not_be_built_are_named_at_once() -> None:
    agents = {"a": python("no_such_module:x"), "b": {"llm": "x"}, "c": python("made_up_module:z")}
    with pytest.raises(Unusable) as refused:
        build(configured(agents, llms={"main": {"model": "m"}}))
    assert [line.partition(":")[0] for line in str(refused.value).splitlines()] == [
        "agents.b.llm",
        "agents.a",
        "agents.c",
    ]


def test_an_agent_without_a_model_has_the_only_or_the_default_one() -> None:
    one = {"model": "m", "base_url": "http://127.0.0.1:1"}
    for llms in ({"main": one}, {"default": one, "other": one | {"model": "n"}}):
        [talker] = build(configured({"a": {}}, llms=llms))
        assert talker.card.description == "The model m."
    with pytest.raises(Unusable, match=r"agents\.a\.llm: needs a model: .*OPENAI_API_KEY"):
        build(configured({"a": {}}))
    environment = {"OPENAI_BASE_URL": "http://127.0.0.1:1", "OPENAI_MODEL": "local"}
    quiet = configured({"a": {"reasoning": {"enable_streaming": False}}})
    [talker] = build(quiet, environment=environment)
    assert talker.card.description == "The model local."
    assert not talker.card.streaming


def test_an_agent_describes_itself_as_the_file_does() -> None:
    output: dict[str, Any] = {
        "name": "A Painter",
        "card": {
            "icon_url": "https://a.example/icon.png",
            "documentation_url": "https://a.example/docs",
            "provider": {"organization": "Acme", "url": "https://acme.example"},
            "skills": [{"id": "paint", "examples": ["a cat"], "output_modes": ["image/png"]}],
        },
    }
    agents = {
        "in-code": python(**output),
        "elsewhere": {"type": "ag-ui", "url": "http://127.0.0.1:1", **output},
    }
    made = list(build(configured(agents)))
    assert [one.name for one in made] == ["in-code", "elsewhere"]
    for one in made:
        card = one.card
        assert (card.title, card.icon_url) == ("A Painter", "https://a.example/icon.png")
        assert card.documentation_url == "https://a.example/docs"
        assert card.provider == Provider(organization="Acme", url="https://acme.example")
        assert card.skills == [
            {
                "id": "paint",
                "name": "paint",
                "description": "paint",
                "tags": ["paint"],
                "examples": ["a cat"],
                "outputModes": ["image/png"],
            }
        ]
