"""The input that a run carries, so that a first attempt begins without reading the log."""

from headrace.model.entry import Entry, Stamp
from headrace.model.task import SUBMITTED
from headrace_worker.assignment import Assignment


def carried_input(assignment: Assignment) -> Entry | None:
    """Return the input as its log's last entry; None: the log must be read.

    A run that was delivered before has probably been worked on, and reading is cheaper than
    being refused.
    """
    run, message = assignment.run, assignment.message
    if run.input is None or run.sequence is None or message.metadata.num_delivered != 1:
        return None
    stamp = Stamp(run.log, assignment.leg, "", SUBMITTED, assignment.leg, owner=run.owner)
    # The run was stored a moment after its input.
    time = message.metadata.timestamp.isoformat()
    return Entry(stamp, [run.input.encode()], run.sequence, time)
