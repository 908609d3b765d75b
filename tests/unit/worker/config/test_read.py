"""headrace.yaml: read, filled in, and refused by line and field."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from headrace_worker.config import Configuration, Unusable, read, schema
from headrace_worker.config.model import ModelAgent, RemoteAgent

WHOLE = """\
llms:
  default:
    model: gpt-5
    base_url: ${MODEL_URL:-http://127.0.0.1:1/v1}
    api_key: ${MODEL_KEY}
tools:
  clock:
    type: python
    target: some_tools:clock
  files:
    type: mcp
    command: [files-server, --root, /srv]
agents:
  assistant:
    type: openai
    llm: default
    instruction: Costs $$5, says ${WHO}.
    reasoning: {show_thinking: false, effort: low}
    tools: [clock, files]
    limits: {concurrency: 4}
  helper:
    type: python
    target: some_agents:helper
  partner:
    type: a2a
    url: https://partner.example
    credentials: {type: bearer, token: "${PARTNER_TOKEN}"}
    security:
      schemes:
        bearer_auth: {type: http, scheme: bearer}
        api_key: {type: apiKey, name: X-API-Key, in: header}
      require: [bearer_auth]
"""

ENVIRONMENT = {"MODEL_KEY": "k", "WHO": "you", "PARTNER_TOKEN": "t: {not: yaml}"}


def written(folder: Path, text: str) -> Path:
    path = folder / "headrace.yaml"
    path.write_text(text)
    return path


def told(folder: Path, text: str, **environment: str) -> str:
    with pytest.raises(Unusable) as refused:
        read(written(folder, text), environment)
    return str(refused.value)


def test_every_output_is_read(tmp_path: Path) -> None:
    found, _ = read(written(tmp_path, WHOLE), ENVIRONMENT)
    assistant, partner = found.agents["assistant"], found.agents["partner"]
    assert isinstance(assistant, ModelAgent)
    assert assistant.instruction == "Costs $5, says you."
    assert not assistant.reasoning.show_thinking
    assert found.llms["default"].base_url == "http://127.0.0.1:1/v1"
    assert isinstance(partner, RemoteAgent)
    assert partner.credentials is not None
    # A value that comes from the environment is text, whatever it looks like.
    assert partner.credentials.model_dump() == {"type": "bearer", "token": "t: {not: yaml}"}


def test_the_schema_takes_what_is_read_and_refuses_what_is_not() -> None:
    jsonschema.validate(yaml.safe_load(WHOLE), schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"agents": {"a": {"type": "python"}}}, schema())


def test_the_schema_is_of_the_current_draft() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


CODE = "{type: python, target: 'a:b'}"
COOKIE = "{type: apiKey, name: Cookie}"
HALF = 'description: "\\ud800"'


def with_code(field: str) -> str:
    """Return an agent in code with one more field."""
    return f"{CODE[:-1]}, {field}}}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("agents: {}\n", "headrace.yaml:1: agents: "),
        ("", "headrace.yaml:1: the file: "),
        ("- a\n", "headrace.yaml:1: the file: "),
        ("agents:\n  a: {type: python}\n", "headrace.yaml:2: agents.a.target: Field required"),
        ("agents:\n  a: {type: what}\n", "headrace.yaml:2: agents.a.type: unknown; allowed: "),
        ("agents:\n  a:\n    url: x\n", "headrace.yaml:2: agents.a.type: is missing; allowed: a2a"),
        (
            "agents:\n  a:\n    type: a2a\n    url: ftp://x\n",
            "headrace.yaml:4: agents.a.url: String should match pattern",
        ),
        (
            "agents:\n  a:\n    type: a2a\n    url: http://x\n    tokn: x\n",
            "headrace.yaml:5: agents.a.tokn: unknown field; allowed: binding, ",
        ),
        (
            "agents:\n  a:\n    type: a2a\n    url: http://x\n    credentials: {type: bearer}\n",
            "headrace.yaml:5: agents.a.credentials.token: Field required",
        ),
        (
            "agents:\n  a:\n    type: a2a\n    url: ${NOWHERE}\n",
            "headrace.yaml:4: agents.a.url: environment variable NOWHERE is not set",
        ),
        (
            "agents:\n  'no good': {type: python, target: 'a:b'}\n",
            "headrace.yaml:2: agents.no good: String should match pattern",
        ),
        ("agents:\n  a: [\n", "headrace.yaml:3: "),
        ("agents: &x\n  a: *x\n", "contains itself"),
        ("agents: " + "[" * 600 + "]" * 600, "nested too deeply"),
        (f"agents:\n  a: {CODE}\n  a: {CODE}\n", "headrace.yaml:3: agents.a: is declared twice"),
        ("agents:\n  a: {type: a2a, url: 'http://[::1'}\n", "headrace.yaml:2: agents.a.url: "),
        ("agents:\n  a: {type: a2a, url: 'http://h:99999'}\n", "agents.a.url: "),
        ("agents:\n  a: {type: ag-ui, url: 'http://'}\n", "with a host"),
        (
            f"agents:\n  a: {with_code('limits: {timeout: .inf}')}\n",
            "headrace.yaml:2: agents.a.limits.timeout: ",
        ),
        (
            f"agents:\n  a: {with_code('limits: {timeout: 1.0e+300}')}\n",
            "agents.a.limits.timeout: ",
        ),
        (f"agents:\n  a: {with_code('retry: {backoff: .nan}')}\n", "agents.a.retry.backoff: "),
        (f"agents:\n  a: {with_code(HALF)}\n", "agents.a.description: contains characters"),
        (
            "agents:\n  a: {type: a2a, url: 'http://h', headers: {'a b': c}}\n",
            "headrace.yaml:2: agents.a.headers: ",
        ),
        (
            'agents:\n  a: {type: a2a, url: "http://h", headers: {a: "b\\nc"}}\n',
            "headrace.yaml:2: agents.a.headers: ",
        ),
        (
            f"agents:\n  a: {with_code('security: {schemes: {x: {type: http}}}')}\n",
            "type http requires scheme: bearer",
        ),
        (
            f"agents:\n  a: {with_code('security: {schemes: {x: {type: apiKey}}}')}\n",
            "type apiKey requires the name of a header",
        ),
        (
            f"agents:\n  a: {with_code('security: {schemes: {x: ' + COOKIE + '}}')}\n",
            "Cookie can't carry an API key",
        ),
    ],
)
def test_errors_name_line_and_field(tmp_path: Path, text: str, expected: str) -> None:
    message = told(tmp_path, text)
    assert expected in message


MISTAKES = """\
llms:
  main: {model: m, temprature: 3}
tool: {}
agents:
  typo: {type: opneai}
  bad name: {}
  assistant:
    nam: x
    follow_ups: enque
    reasoning: {efort: low}
  nowhere: {url: "http://x"}
  partner: {type: a2a, url: "${NO_URL}", credentials: {type: bearer, tokn: x}}
  twice: {target: "a:b"}
  twice: {target: "a:b"}
  artist: {card: {skills: [{id: a, inputModes: [x]}]}}
  text: just text
"""

ALL_OF_THEM = [
    "2: llms.main.temprature: unknown field; did you mean 'temperature'? allowed: api_key, ",
    "3: tool: unknown field; did you mean 'tools'? allowed: agents, llms, schedules, tools",
    "5: agents.typo.type: unknown; did you mean 'openai'? allowed: python, openai, a2a, ag-ui",
    "6: agents.bad name: String should match pattern",
    "8: agents.assistant.nam: unknown field; did you mean 'name'? allowed: ",
    "9: agents.assistant.follow_ups: Input should be 'enqueue', 'interrupt', 'reject' or 'steer'",
    "10: agents.assistant.reasoning.efort: unknown field; did you mean 'effort'? allowed: ",
    "11: agents.nowhere.type: is missing; allowed: a2a and ag-ui, for an agent with a url",
    "12: agents.partner.url: environment variable NO_URL is not set",
    "12: agents.partner.credentials.tokn: unknown field; did you mean 'token'? allowed: ",
    "12: agents.partner.credentials.token: Field required",
    "14: agents.twice: is declared twice",
    "15: agents.artist.card.skills.0.inputModes: unknown field; did you mean 'input_modes'? ",
    "16: agents.text: must be a mapping with fields",
]


def test_all_problems_are_reported_at_once_with_suggestions(tmp_path: Path) -> None:
    message = told(tmp_path, MISTAKES).splitlines()
    assert len(message) == len(ALL_OF_THEM)
    for expected in ALL_OF_THEM:
        line, _, rest = expected.partition(": ")
        wanted = f"headrace.yaml:{line}: {rest}"
        assert any(one.startswith(wanted) for one in message), (wanted, message)
    [follow_ups] = [one for one in message if "follow_ups: " in one]
    assert follow_ups.endswith("; did you mean 'enqueue'?")


def test_an_error_does_not_contain_the_secret(tmp_path: Path) -> None:
    text = "agents:\n  a:\n    type: a2a\n    url: ${URL}\n"
    assert "s3cret" not in told(tmp_path, text, URL="s3cret")


def test_a_file_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="No such file"):
        read(tmp_path / "none.yaml", {})


def test_nothing_of_yaml_makes_objects(tmp_path: Path) -> None:
    assert "headrace.yaml" in told(tmp_path, "agents: !!python/object/apply:os.getcwd []\n")


def test_a_configuration_can_be_made_in_code() -> None:
    made = {"agents": {"a": {"type": "python", "target": "m:a"}}}
    assert Configuration.model_validate(made).agents.keys() == {"a"}
