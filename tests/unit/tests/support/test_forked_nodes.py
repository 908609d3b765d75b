"""xdist's processes are forks of one that has imported the tests."""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.forked_nodes import ForkedNodes

TIMEOUT = 60
IMPORTED = """\
def test_it_has_a_claim() -> None:
    assert True
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedNodes]:
    """Forks that have imported one module, and none of another, which can not be imported."""
    folder = tmp_path_factory.mktemp("imported")
    (folder / "test_imported_once.py").write_text(IMPORTED)
    (folder / "test_not_importable.py").write_text("import no_such_module")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # They take seconds to import.
        nodes = ForkedNodes([str(folder)])
    yield nodes
    nodes.close()


def executed(nodes: ForkedNodes, line: str, typed: str = "") -> tuple[int, str]:
    """Return the exit code and the output of what stands for Python to xdist."""
    ran = subprocess.run(
        [*shlex.split(nodes.python), "-u", "-c", line],
        input=typed,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_a_fork_has_imported_what_can_be(nodes: ForkedNodes) -> None:
    assert nodes.are_ready
    names = ("test_imported_once", "test_not_importable")
    line = f"import sys; print([name in sys.modules for name in {names}])"
    assert executed(nodes, line) == (0, "[True, False]\n")


def test_a_fork_has_its_requesters_files_and_no_arguments(
    nodes: ForkedNodes,
) -> None:
    line = "import sys; print(sys.argv, sys.stdin.readline()); print('said', file=sys.stderr)"
    assert executed(nodes, line, "typed") == (0, "['-c'] typed\nsaid\n")


def test_each_is_a_process_of_its_own(nodes: ForkedNodes) -> None:
    lines = [executed(nodes, "import os; print(os.getpid())") for _ in range(2)]
    assert len(set(lines)) == 2


def test_its_requester_ends_with_a_fork_that_dies(nodes: ForkedNodes) -> None:
    assert executed(nodes, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)") == (0, "")


SLEEPS = """\
import os, time
try:
    print(os.getpid(), flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_from_the_terminal_reaches_only_the_fork(nodes: ForkedNodes) -> None:
    command = [*shlex.split(nodes.python), "-u", "-c", SLEEPS]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as requester:
        assert requester.stdout is not None
        fork = int(requester.stdout.readline())
        for each in (nodes.pid, requester.pid, fork):
            os.kill(each, signal.SIGINT)
        said, _ = requester.communicate(timeout=TIMEOUT)
    assert (requester.returncode, said) == (0, "interrupted\n")
    assert executed(nodes, "print('goes on')") == (0, "goes on\n")
