"""Which of the processes that share the tests runs which file."""

from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

_OF_THE_STACK = "tests/e2e/"
_STACKS: Final = 2


class StackScheduling(LoadFileScheduling):
    """Files in order, where few processes run end-to-end tests while there are others to run.

    Each process that runs an end-to-end test starts the shared stack: it costs 8 s of a core to
    start, and a tenth of a core until the last of these tests.
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        """Schedule files as `config` says."""
        super().__init__(config, log)
        self._with_stack = set[WorkerController]()

    def remove_node(self, node: WorkerController) -> str | None:
        """Remove a process; if it had a stack, another one may start its own."""
        self._with_stack.discard(node)
        return super().remove_node(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node not in self._with_stack and len(self._with_stack) == _STACKS:
            others = (file for file in self.workqueue if not file.startswith(_OF_THE_STACK))
            if (other := next(others, None)) is not None:
                self.workqueue.move_to_end(other, last=False)
        if next(iter(self.workqueue)).startswith(_OF_THE_STACK):
            self._with_stack.add(node)
        super()._assign_work_unit(node)
