"""Which of the processes that share the tests runs which file."""

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

_ROOT: Final = Path(__file__).parents[2]
_ARCHITECTURE: Final = "tests/architecture"
_END_TO_END: Final = "tests/e2e/"
_OF_THE_STACK: Final = {"stack", "fleet", "extra_worker", "slow_counters", "tight_gateway"}
"""The fixtures that start the shared stack."""
_STACKS: Final = 2
_ADAPTERS: Final = "tests/integration/worker/adapters/"
_FRAMEWORKS: Final = (
    ("google_adk", "langgraph", "graph_agent"),
    ("openai", "model_span"),
    ("pydantic", "ag_ui"),
)
"""Words of the names of files that import the same frameworks."""


class StackScheduling(LoadFileScheduling):
    """Files in order, where few processes run what needs the shared stack, and that first.

    Each process that runs such a file starts a stack: it costs 11 s of a core to start, and a tenth
    of a core until the last of these tests. Files with a stack of their own may run anywhere. One
    process runs the tests of the architecture, which read and parse the same files, and one those
    of adapters of the same frameworks, which take seconds to import.
    """

    def __init__(
        self,
        config: pytest.Config,
        log: Producer | None = None,
        needs_stack: Callable[[str], bool] | None = None,
    ) -> None:
        """Schedule files as `config` says; `needs_stack` tells which ones need the stack."""
        super().__init__(config, log)
        self._needs_stack = needs_stack or shares_stack
        self._with_stack = set[WorkerController]()

    def remove_node(self, node: WorkerController) -> str | None:
        """Remove a process; if it had a stack, another one may start its own."""
        self._with_stack.discard(node)
        return super().remove_node(node)

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        if file.startswith(_ADAPTERS):
            of = (each[0] for each in _FRAMEWORKS if any(word in file for word in each))
            return f"{_ADAPTERS}{name}" if (name := next(of, "")) else file
        return _ARCHITECTURE if file.startswith(f"{_ARCHITECTURE}/") else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node in self._with_stack:
            self._prefer(with_stack=True)
        elif len(self._with_stack) == _STACKS:
            self._prefer(with_stack=False)
        if self._needs_stack(next(iter(self.workqueue))):
            self._with_stack.add(node)
        super()._assign_work_unit(node)

    def _prefer(self, *, with_stack: bool) -> None:
        """Move the first file of that kind, if there is any, to the head of the queue."""
        files = (file for file in self.workqueue if self._needs_stack(file) is with_stack)
        if (first := next(files, None)) is not None:
            self.workqueue.move_to_end(first, last=False)


@cache
def shares_stack(file: str) -> bool:
    """Tell whether the tests of a file, by its path in the tree, need the shared stack."""
    if not file.startswith(_END_TO_END):
        return False
    functions = [
        one
        for one in ast.walk(ast.parse((_ROOT / file).read_text()))
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    fixtures = {one.name for one in functions if _is_fixture(one)}
    asked = set[str]()
    for one in functions:
        if one.name in fixtures or one.name.startswith("test_"):
            asked |= _asked_for(one)
    return bool((asked - fixtures) & _OF_THE_STACK)


def _is_fixture(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("pytest.fixture" in ast.unparse(one) for one in function.decorator_list)


def _asked_for(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names of a function's parameters, and what its decorators name."""
    marks = {
        one.value
        for mark in function.decorator_list
        for one in ast.walk(mark)
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    }
    return marks | {one.arg for one in function.args.args}
