"""The page of settings is what the classes say."""

import re

from headrace.model.described import descriptions
from headrace.setting_groups import SETTING_GROUPS, group_of
from headrace.setting_names import setting_names
from headrace_cli.dev.settings import DevSettings
from headrace_cli.settings_table import settings_classes, table, variables
from tests.architecture.tree import ROOT


def test_the_settings_page_is_made_anew() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page == table(), "run: headrace settings > docs/settings.md"


def test_every_variable_is_explained() -> None:
    rows = [line for line in table().splitlines() if line.startswith("| `HEADRACE_")]
    assert len(rows) > 20
    assert [row for row in rows if not row.split("|")[4].strip()] == []


def test_every_group_has_settings() -> None:
    titles = [line.removeprefix("## ") for line in table().splitlines() if line.startswith("## ")]
    assert titles == [*(group.title for group in SETTING_GROUPS), "The development stack"]


def test_a_variable_is_in_one_group() -> None:
    groups: dict[str, set[str]] = {}
    for one in settings_classes().values():
        for name, field in one.model_fields.items():
            if one is not DevSettings:
                groups.setdefault(name, set()).add(group_of(field.metadata).title)
    assert {name: found for name, found in groups.items() if len(found) > 1} == {}


_UNIT = re.compile(
    r"seconds|bytes|days|replicas|port\b|number of|depth|how often|per second|lines per|times",
    re.IGNORECASE,
)


def test_every_number_states_its_unit() -> None:
    numbers = {
        name: descriptions(one).get(name, "")
        for one in settings_classes().values()
        for name, field in one.model_fields.items()
        if str(field.annotation).partition(" | ")[0] in {"<class 'int'>", "<class 'float'>", "int"}
    }
    assert len(numbers) > 40
    assert {name: said for name, said in numbers.items() if not _UNIT.search(name + said)} == {}


def test_a_variable_means_the_same_to_each_service() -> None:
    meanings: dict[str, set[str]] = {}
    for one in settings_classes().values():
        if one is not DevSettings:
            for name, said in descriptions(one).items():
                # A service that needs another one's setting says so.
                meanings.setdefault(name, set()).update(
                    {said} if "as of gateways" not in said else ()
                )
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}


def test_services_recognize_every_setting() -> None:
    of_the_command_line = {"HEADRACE_URL", "HEADRACE_TOKEN"}
    wanted = sorted(variables() | of_the_command_line)
    assert sorted(setting_names()) == wanted, "correct shared/headrace/setting_names.txt"
