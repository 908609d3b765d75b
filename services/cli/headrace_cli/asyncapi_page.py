"""The bus contract as a page for people: plain HTML from the document, without scripts."""

from collections.abc import Iterator
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import override

import click
import orjson

from headrace.model.events import Json
from headrace_cli.failures import CannotStart

_HOST = "127.0.0.1"

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
code, pre { font: 14px/1.4 ui-monospace, monospace }
pre { overflow: auto; padding: .5rem; border: 1px solid #8884 }
h2 { margin: 2rem 0 0; font-size: 1.1rem }
p { margin: .3rem 0 }
"""


def serve(document: Json, port: int) -> None:
    """Show the document at ``http://127.0.0.1:<port>`` until Ctrl-C; port 0: any free one.

    Raises:
        CannotStart: the port is taken.
    """
    server = page_server(document, port)
    click.echo(f"http://{_HOST}:{server.server_port}")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


def page_server(document: Json, port: int) -> ThreadingHTTPServer:
    """Return a server that listens, and answers every path with the page.

    Raises:
        CannotStart: the port is taken.
    """
    body = page(document).encode()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header(
                "Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"
            )
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: one person reads one page."""

    try:
        return ThreadingHTTPServer((_HOST, port), Page)
    except OSError as error:
        raise CannotStart(f"cannot listen on port {port}: {error.strerror}") from error


def page(document: Json) -> str:
    """Return the document as a page."""
    info = document["info"]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        f"<p>{escape(info['description'])}</p>",
    ]
    for name, operation in sorted(document["operations"].items()):
        parts += _operation(document, name, operation)
    return "".join([*parts, "</body></html>"])


def _operation(document: Json, name: str, operation: Json) -> Iterator[str]:
    channel = _at(document, operation["channel"])
    yield f'<h2 id="{escape(name)}">{escape(name)}</h2>'
    yield f"<p><code>{escape(channel['address'])}</code></p>"
    yield f"<p>{escape(channel.get('description', ''))}</p>"
    yield from _messages(document, operation["messages"], "Message")
    yield from _messages(document, operation.get("reply", {}).get("messages", []), "Answer")


def _messages(document: Json, references: list[Json], what: str) -> Iterator[str]:
    for reference in references:
        message = _at(document, _at(document, reference))
        schema = _at(document, message["payload"])
        shown = {"headers": message["headers"], "body": schema} if "headers" in message else schema
        title = escape(f"{what}: {message['payload']['$ref'].rpartition('/')[2]}")
        text = escape(orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode())
        yield f"<details><summary>{title}</summary><pre>{text}</pre></details>"


def _at(document: Json, reference: Json) -> Json:
    found = document
    for step in reference["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return found
