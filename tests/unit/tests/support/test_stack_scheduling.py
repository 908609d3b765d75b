"""Two of the processes that share the tests start the end-to-end tests' stack, not for long."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.stack_scheduling import StackScheduling, shares_stack

E2E = [f"tests/e2e/test_{number}.py::test_it" for number in range(9)]
ALONE = [f"tests/e2e/test_alone_{number}.py::test_it" for number in range(4)]
OTHERS = [f"tests/unit/test_{number}.py::test_it" for number in range(12)]


class FakeNode:
    """A process that says which tests it was given, and ends none by itself."""

    shutting_down = False

    def __init__(self, tests: list[str], name: str) -> None:
        """Have collected `tests`."""
        self.tests, self.given, self.gateway = tests, list[int](), SimpleNamespace(id=name)

    def send_runtest_some(self, indices: list[int]) -> None:
        """Take tests."""
        self.given += indices

    def shutdown(self) -> None:
        """Take no more."""
        self.shutting_down = True

    @property
    def files(self) -> list[str]:
        """The files of its tests, in the order in which it got them."""
        return [self.tests[index].partition("::")[0] for index in self.given]

    @property
    def has_stack(self) -> bool:
        """Whether one of its tests needs the stack."""
        return any(needs_stack(file) for file in self.files)


def needs_stack(file: str) -> bool:
    return file.startswith("tests/e2e/") and "alone" not in file


def scheduled(tests: list[str], processes: int) -> tuple[StackScheduling, list[FakeNode]]:
    """Return `processes` that have been given their first files."""
    option = SimpleNamespace(loadscopereorder=False)
    config = SimpleNamespace(option=option, getvalue=lambda _: ["popen"] * processes)
    scheduling = StackScheduling(cast("pytest.Config", config), needs_stack=needs_stack)
    nodes = [FakeNode(tests, f"gw{number}") for number in range(processes)]
    for node in nodes:
        scheduling.add_node(cast("Any", node))
        scheduling.add_node_collection(cast("Any", node), tests)
    scheduling.schedule()
    return scheduling, nodes


def run(scheduling: StackScheduling, nodes: list[FakeNode]) -> None:
    """End one test after another of each process in turn, until none is left."""
    done = dict.fromkeys(range(len(nodes)), 0)
    while any(done[number] < len(node.given) for number, node in enumerate(nodes)):
        for number, node in enumerate(nodes):
            if done[number] < len(node.given):
                scheduling.mark_test_complete(cast("Any", node), node.given[done[number]])
                done[number] += 1


def test_two_processes_run_the_end_to_end_tests_and_the_others_the_rest() -> None:
    tests = [*E2E, *OTHERS]
    scheduling, nodes = scheduled(tests, 5)
    run(scheduling, nodes)
    assert sorted(index for node in nodes for index in node.given) == list(range(len(tests)))
    assert [node.has_stack for node in nodes].count(True) == 2
    first = next(node for node in nodes if node.has_stack)
    assert first.files == sorted(first.files), "the order of the tree"


def test_one_process_runs_the_tests_of_the_architecture() -> None:
    laws = [f"tests/architecture/test_{number}.py::test_it" for number in range(6)]
    scheduling, nodes = scheduled([*laws, *OTHERS], 3)
    run(scheduling, nodes)
    shares = [sum(file.startswith("tests/architecture/") for file in node.files) for node in nodes]
    assert sorted(shares) == [0, 0, len(laws)]


def test_one_process_runs_the_tests_of_adapters_of_the_same_frameworks() -> None:
    names = ("google_adk", "langgraph_home", "graph_agent", "official/test_langgraph_how_tos")
    same = [f"tests/integration/worker/adapters/test_{name}.py::test_it" for name in names]
    scheduling, nodes = scheduled([*same, *OTHERS], 3)
    run(scheduling, nodes)
    shares = [sum("/adapters/" in file for file in node.files) for node in nodes]
    assert sorted(shares) == [0, 0, len(same)]


def test_a_process_with_the_stack_runs_what_needs_it_before_anything_else() -> None:
    tests = [*E2E[:3], *ALONE[:3], *E2E[3:6], *ALONE[3:], *E2E[6:], *OTHERS]
    scheduling, nodes = scheduled(tests, 5)
    run(scheduling, nodes)
    with_stack = [[needs_stack(file) for file in node.files] for node in nodes if node.has_stack]
    assert len(with_stack) == 2
    # From the first such file to the last one.
    stretches = [one[one.index(True) : len(one) - one[::-1].index(True)] for one in with_stack]
    assert [all(one) for one in stretches] == [True, True]


@pytest.mark.parametrize(
    ("file", "is_shared"),
    [
        ("tests/e2e/test_console.py", True),
        ("tests/e2e/test_stream_details.py", True),
        ("tests/e2e/resume/test_lost_pasts.py", True),
        ("tests/e2e/test_isolation.py", False),
        ("tests/e2e/test_schedules.py", False),
        ("tests/e2e/resume/test_browser.py", False),
        ("tests/unit/tests/support/test_stack_scheduling.py", False),
    ],
)
def test_a_files_fixtures_show_whether_it_needs_the_stack(file: str, is_shared: bool) -> None:  # noqa: FBT001
    assert shares_stack(file) is is_shared


def test_every_process_takes_end_to_end_tests_when_nothing_else_is_left() -> None:
    scheduling, nodes = scheduled(E2E, 4)
    run(scheduling, nodes)
    assert [node.has_stack for node in nodes] == [True] * 4


def test_another_process_takes_the_place_of_one_that_crashed() -> None:
    scheduling, nodes = scheduled([*E2E, *OTHERS], 3)
    crashed = nodes[0]
    assert crashed.has_stack
    scheduling.remove_node(cast("Any", crashed))
    run(scheduling, nodes[1:])
    assert [node.has_stack for node in nodes[1:]] == [True, True]
