"""The page of settings is what the classes say."""

from headrace.setting_names import setting_names
from headrace_cli.settings_table import table, variables
from tests.architecture.tree import ROOT


def test_the_settings_page_is_made_anew() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page == table(), "run: headrace settings > docs/settings.md"


def test_every_variable_is_explained() -> None:
    rows = [line for line in table().splitlines() if line.startswith("| `HEADRACE_")]
    assert len(rows) > 20
    assert [row for row in rows if not row.split("|")[3].strip()] == []


def test_services_recognize_every_setting() -> None:
    of_the_command_line = {"HEADRACE_URL", "HEADRACE_TOKEN"}
    wanted = sorted(variables() | of_the_command_line)
    assert sorted(setting_names()) == wanted, "correct shared/headrace/setting_names.txt"
