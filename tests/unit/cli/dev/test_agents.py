"""Which agents `headrace dev` serves, and which of them is the default."""

from pathlib import Path

import pytest

from headrace_cli.dev.agents import with_agents
from headrace_cli.dev.settings import load
from headrace_cli.failures import CannotStart

MODULE = """\
import headrace
from headrace import RunContext, agent as served

def agent(function): return function

@agent
async def not_ours(ctx): ...

@served
async def price_list(ctx: RunContext): ...

@headrace.agent(name="shop")
def sell(ctx: RunContext): ...
"""

FILE = "agents:\n  second: {target: no:where}\n  first: {target: no:where}\n"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGENTS", "CONFIG", "DEFAULT_AGENT"):
        monkeypatch.delenv(f"HEADRACE_{name}", raising=False)


def served(folder: Path, **flags: str) -> tuple[str, str, str]:
    """Return the targets, the file and the default agent."""
    settings = with_agents(load(**flags), folder)
    targets = "" if settings.config else settings.agents
    return targets, settings.config, settings.default_agent


def test_without_any_the_demo_agents_are_served(tmp_path: Path) -> None:
    (tmp_path / "unrelated.py").write_text("this is not Python")
    assert served(tmp_path) == ("headrace_dojo:agents", "", "")


CLIENT = "import headrace.client\nfrom headrace import File\nfrom headrace.client import Client\n"


def test_a_folder_of_clients_has_the_demo_agents(tmp_path: Path) -> None:
    for name in ("shop", "till"):
        (tmp_path / f"{name}.py").write_text(CLIENT)
    for name in ("test_shop", "conftest"):
        (tmp_path / f"{name}.py").write_text("import headrace\n")
    assert served(tmp_path) == ("headrace_dojo:agents", "", "")


def test_a_star_import_has_the_decorator(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("from headrace import *\n@agent\nasync def sell(ctx): ...\n")
    assert served(tmp_path) == ("shop:sell", "", "sell")


@pytest.mark.parametrize(
    "source",
    [
        "from headrace import agent\nif True:\n  @agent\n  async def sell(ctx): ...\n",
        "def made():\n  import headrace\n  return headrace.agent(print)\n",
        "from headrace import agent as served\nsell = served(print)\n",
        "from headrace.adapters.langgraph.agent import langgraph_agent\n",
        "from headrace import RunContext\nfrom elsewhere import declared\n",
    ],
)
def test_agents_that_are_not_found_are_not_replaced_by_the_demo_agents(
    tmp_path: Path, source: str
) -> None:
    for name in ("shop", "till"):
        (tmp_path / f"{name}.py").write_text(source)
    (tmp_path / "buy.py").write_text(CLIENT)
    with pytest.raises(CannotStart) as refused:
        served(tmp_path)
    assert str(refused.value) == (
        "no agent found in shop.py, till.py: only functions with headrace's @agent at the top level"
        " of a module of this folder are found; name others in headrace.yaml, or with"
        " --agents shop:NAME"
    )
    assert served(tmp_path, agents="shop:sell")[0] == "shop:sell"


def test_declared_functions_of_the_folder_are_found(tmp_path: Path) -> None:
    for name in ("shop", "test_shop", "shop_test", "conftest", "no-module"):
        (tmp_path / f"{name}.py").write_text(MODULE)
    another = "from headrace import agent\n@agent()\nasync def a(ctx): ..."
    (tmp_path / "another.py").write_text(another)
    assert served(tmp_path) == ("another:a,shop:price_list,shop:sell", "", "a")


def test_ids_are_those_of_the_declaration(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(MODULE)
    assert served(tmp_path)[2] == "price-list"
    (tmp_path / "shop.py").write_text(MODULE.replace("@served\n", ""))
    assert served(tmp_path)[2] == "shop"


def test_an_id_that_is_computed_is_left_to_the_gateway(tmp_path: Path) -> None:
    source = "from headrace import agent\n@agent(name=NAME)\nasync def a(ctx): ..."
    (tmp_path / "shop.py").write_text(source)
    assert served(tmp_path) == ("shop:a", "", "")


def test_the_file_of_the_folder_comes_before_its_modules(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(MODULE)
    (tmp_path / "headrace.yaml").write_text(FILE)
    assert served(tmp_path) == ("", "headrace.yaml", "second")


def test_flags_come_before_what_is_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "headrace.yaml").write_text("agents: 1")
    (tmp_path / "other.yaml").write_text(FILE)
    assert served(tmp_path, agents="json:loads") == ("json:loads", "", "")
    assert served(tmp_path, config="other.yaml") == ("", "other.yaml", "second")


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("shop:sell", "shop"),
        ("shop:price_list,shop:sell", "price-list"),
        ("stores.shop:sell", "shop"),
        ("shop:some", "price-list"),
        ("shop:all_of_them", "shop"),
        ("shop:computed", ""),
        ("shop:not_ours", ""),
        ("stores:sell", ""),
        ("stores.other:sell", ""),
    ],
)
def test_the_first_agent_of_the_flag_is_the_default(tmp_path: Path, target: str, name: str) -> None:
    """Its name is read from its module, which is not run."""
    lists = "some = [price_list, sell]\nall_of_them = headrace.Agents([sell, price_list])\n"
    source = f"{MODULE}{lists}computed = list(some)\nraise AssertionError\n"
    (tmp_path / "stores").mkdir()
    (tmp_path / "stores" / "__init__.py").write_text("raise AssertionError")
    for folder in (tmp_path, tmp_path / "stores"):
        (folder / "shop.py").write_text(source)
    assert served(tmp_path, agents=target) == (target, "", name)
    assert served(tmp_path, agents=target, default_agent="first")[2] == "first"


def test_the_default_agent_that_is_set_stays(tmp_path: Path) -> None:
    (tmp_path / "headrace.yaml").write_text(FILE)
    assert served(tmp_path, default_agent="first")[2] == "first"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("shop.py", "from headrace import agent\ndef (", "shop.py:2: "),
        ("shop.py", "from headrace import agent\n\n\0", "shop.py:3: a null byte; save"),
        ("headrace.yaml", "agents:\n  shop: {colour: red}\n", "headrace.yaml:2: "),
    ],
)
def test_errors_are_reported_with_their_line(
    tmp_path: Path, file: str, content: str, message: str
) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises(CannotStart) as refused:
        served(tmp_path)
    assert str(refused.value).startswith(message)
