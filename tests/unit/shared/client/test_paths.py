"""Which addresses are files of the fleet's."""

import pytest

from headrace.client.paths import file_path, task_path


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://public/base/v1/agents/a/tasks/0-1/files/ff", "/v1/agents/a/tasks/0-1/files/ff"),
        ("https://elsewhere/picture.png", None),
        ("https://elsewhere/v1/agents/a/tasks/0-1/files/../../x", None),
    ],
)
def test_only_files_of_tasks_are_requested(url: str, path: str | None) -> None:
    assert file_path(url) == path


def test_names_are_quoted() -> None:
    assert task_path("a/b", "?") == "/v1/agents/a%2Fb/tasks/%3F"
