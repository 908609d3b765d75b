"""The bus contract as a document and as a page."""

import os
import threading
from importlib import import_module

import httpx
import pytest
from click.testing import CliRunner, Result

from headrace_cli import services
from headrace_cli.asyncapi import document
from headrace_cli.asyncapi_page import page_server
from tests.support.plain_http import NO_TLS


def asyncapi(*arguments: str) -> Result:
    return CliRunner().invoke(import_module("headrace_cli.main").main, ["asyncapi", *arguments])


def test_the_page_is_served_and_may_load_nothing() -> None:
    with page_server(document(), 0) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        answer = httpx.get(f"http://127.0.0.1:{server.server_port}/", timeout=60, verify=NO_TLS)
        thread.join(60)
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "{prefix}.state.get" in answer.text


def test_a_port_that_is_taken_is_one_line() -> None:
    with page_server(
        {"info": dict.fromkeys(("title", "version", "description"), ""), "operations": {}}, 0
    ) as other:
        answer = asyncapi("--serve", str(other.server_port))
    assert answer.exit_code == 1
    assert answer.output.startswith(f"Error: cannot listen on port {other.server_port}")


def test_without_faststream_it_states_which_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(_: str) -> None:
        raise ModuleNotFoundError("no faststream", name="faststream")

    monkeypatch.setattr(services, "import_module", missing)
    answer = asyncapi()
    assert answer.exit_code == os.EX_CONFIG
    assert answer.output.endswith("faststream: pip install 'headrace[task-state]'\n")
