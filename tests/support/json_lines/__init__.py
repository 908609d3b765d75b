"""A protocol of newline-delimited JSON: a minimal example of a new protocol.

``POST /lines/<agent>`` with a text begins a task, ``GET /lines/<agent>/<task>?after=<cursor>``
follows one, and ``DELETE`` cancels it. A line is ``{"cursor", "event"}``. The first one after a
loss has ``"recovered": false``, an early end is ``{"interrupted", "reason"}``, and an empty line
keeps a silent stream alive.

As a part of the gateway, the folder would be in ``headrace_gateway/protocols``, and its line in
``headrace_gateway/protocol_table.py``; in tests that is ``tests/support/protocol_table.py``.
"""
