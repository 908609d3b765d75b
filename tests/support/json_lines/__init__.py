"""A protocol of newline-delimited JSON: a minimal example of a new protocol.

``POST /lines/<agent>`` with a text begins a task, ``GET /lines/<agent>/<task>?after=<cursor>``
follows one, and ``DELETE`` cancels it. A line is ``{"cursor", "event"}``; the first one after a
loss has ``"recovered": false``, and an early end is ``{"interrupted", "reason"}``. An empty line
says that a silent stream lives.
"""

from headrace_gateway.protocol_table import Protocol
from tests.support.json_lines.routes import routes

JSON_LINES = Protocol("lines", routes)
