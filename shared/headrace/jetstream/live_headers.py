"""The headers of a live message that was appended after the one before it on its subject.

They are compared and found as bytes; see `headrace.log.token_frame`.
"""

import re

APPENDED = (
    rb"(Nats-Expected-Last-Subject-Sequence: )[0-9]{1,19}(\r\n"
    rb"Nats-Stream: [^\r\n]+\r\n"
    rb"Nats-Subject: [^\r\n]+\r\n"
    rb"Nats-Sequence: )[0-9]{1,19}\r\n"
    rb"Nats-Time-Stamp: [^\r\n]+\r\n"
    rb"Nats-Last-Sequence: [0-9]{1,19}\r\n\r\n"
)
"""Pattern of the expectation of its writer and of what nats-server adds, each once and all of it.

The groups are the bytes around the expectation, which end where the sequence begins.
"""

PLACE = re.compile(rb"([0-9]{1,19})\r\nNats-Time-Stamp: ([ -~]+)")
"""The sequence and the time."""

PREVIOUS_IS = b"\r\nNats-Last-Sequence: %d\r\n\r\n"
"""What follows the time, with the sequence before the message's."""
