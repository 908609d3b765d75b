"""Files that were written for Hector load as they stand, and say what of them has no effect."""

import re
from pathlib import Path

from headrace_worker.config import DeclaredAgents, declared_in
from tests.support import hector_documents
from tests.support.given_documents import path_of

ENVIRONMENT = {"EXTERNAL_TOKEN": "t", "PARTNER_TOKEN": "t", "OPENAI_API_KEY": "k"}

WHOLE = """\
agents:
  writer:
    name: "Writer"
    llm: fast
    reasoning:
      engine: "chain-of-thought"
      enable_streaming: true
      show_thinking: true
    tools:
      - look_up
  guarded:
    security:
      schemes:
        token: {type: "http", scheme: "bearer"}
        key: {type: "apiKey", name: "X-Writer-Key", in: "header"}
      require:
        - token
  partner:
    type: "a2a"
    url: "https://partner.example"
    credentials: {type: "bearer", token: "${PARTNER_TOKEN}"}
"""

_BLOCK = re.compile(r"^agents:\n(?:(?:[ \t].*)?\n)+", re.MULTILINE)


def declared(folder: Path, text: str) -> DeclaredAgents:
    path = folder / "headrace.yaml"
    path.write_text(text)
    return declared_in(path, ENVIRONMENT, connect=False)


def test_every_key_loads_and_those_without_effect_are_warned_of(tmp_path: Path) -> None:
    found = declared(tmp_path, WHOLE)
    cards = [one.card for one in found.agents]
    assert [card.title for card in cards] == ["Writer", "guarded", "partner"]
    assert cards[0].streaming
    assert cards[1].security.require == ["token"]
    assert cards[1].security.schemes["key"].name == "X-Writer-Key"
    fields = [warning.split(": ")[:2] for warning in found.warnings]
    assert fields == [
        ["headrace.yaml:4", "agents.writer.llm"],
        ["headrace.yaml:6", "agents.writer.reasoning.engine"],
        ["headrace.yaml:9", "agents.writer.tools"],
        ["headrace.yaml:11", "agents.guarded.llm"],
    ]
    assert "reasoning.effort" in found.warnings[1], "it says what to do instead"
    assert "declare them under tools" in found.warnings[2]


def test_a_file_that_declares_llms_and_tools_must_name_those(tmp_path: Path) -> None:
    rest = "llms: {fast: {model: m, api_key: k}}\ntools: {look_up: {type: mcp, command: [x]}}\n"
    found = declared(tmp_path, rest + WHOLE)
    assert [warning.split(": ")[1] for warning in found.warnings] == [
        "agents.writer.reasoning.engine"
    ]


@hector_documents.needed
def test_every_block_of_hectors_documents_loads_as_it_stands(tmp_path: Path) -> None:
    documents = [path_of(f"{name}.txt") for name in hector_documents.DOCUMENTS]
    blocks = [block for page in documents for block in _BLOCK.findall(page.read_text())]
    assert len(blocks) >= 3
    for block in blocks:
        found = declared(tmp_path, block)
        assert len(found.agents) == 1, block
