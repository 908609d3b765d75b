"""The gateway's protocols, and the line of one more."""

from headrace_gateway.protocol_table import PROTOCOLS, Protocol
from tests.support.json_lines.routes import routes

WITH_JSON_LINES = (*PROTOCOLS, Protocol("lines", routes))
