"""The OpenAPI document as a page for people: one file of HTML that loads nothing."""

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape

import orjson

from headrace.model import json_text
from headrace.model.events import Json

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: #8881; overflow: auto; padding: .6rem; }
summary { cursor: pointer; padding: .2rem 0; }
details { border-bottom: 1px solid #8884; }
b { display: inline-block; min-width: 4rem; }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid #8883; padding: .2rem .6rem .2rem 0; text-align: left;
  vertical-align: top; }
"""

_HASH = b64encode(sha256(_STYLE.encode()).digest()).decode()

POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
"""``Content-Security-Policy`` of the page: it has no scripts, and this style only."""

_PREFIX = "#/components/schemas/"


def html_page(document: Json) -> bytes:
    """Return the page of an OpenAPI document; `document` is JSON as clients get it."""
    info = document["info"]
    title = escape(f"{info['title']} {info['version']}: HTTP API")
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{_STYLE}</style><h1>{title}</h1><p>{_prose(info['description'])}</p>",
        '<p>For machines: <a href="openapi.json">openapi.json</a></p>',
    ]
    for tag in document["tags"]:
        parts.append(f"<h2>{escape(tag['name'])}</h2><p>{_prose(tag['description'])}</p>")
        parts += _operations(document, tag["name"])
    parts.append("<h2>Schemas</h2>")
    parts += map(_schema, document["components"]["schemas"].items())
    return "\n".join(parts).encode()


def _operations(document: Json, tag: str) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                yield _operation(f"{method.upper()}", path, operation)


def _operation(method: str, path: str, operation: Json) -> str:
    parts = [
        f'<details id="{operation["operationId"]}"><summary><b>{method}</b>',
        f"<code>{escape(path)}</code> {_prose(operation['summary'])}</summary>",
        _parameters(operation.get("parameters", ())),
    ]
    if "requestBody" in operation:
        parts.append(f"<p>Body:</p>{_content(operation['requestBody'])}")
    for status, found in operation["responses"].items():
        if "$ref" not in found:
            parts.append(f"<p>{status}: {_prose(found['description'])}</p>{_content(found)}")
    return "".join([*parts, "</details>"])


def _parameters(parameters: list[Json]) -> str:
    rows = (
        f"<tr><td><code>{escape(one['name'])}</code><td>{one['in']}<td>"
        f"{_prose(one.get('description') or one['schema'].get('description', ''))}"
        for one in parameters
    )
    found = "".join(rows)
    return f"<table><tr><th>parameter<th>in<th>meaning{found}</table>" if found else ""


def _content(holder: Json) -> str:
    return "".join(
        f"<p><code>{escape(media_type)}</code> {_reference(one['schema'])}</p>"
        for media_type, one in holder.get("content", {}).items()
    )


def _reference(schema: Json) -> str:
    """Return a schema as the link to its definition or, without a name, itself."""
    if name := schema.get("$ref", "").removeprefix(_PREFIX):
        return f'<a href="#schema-{escape(name)}">{escape(name)}</a>'
    return _pre(schema)


def _schema(named: tuple[str, Json]) -> str:
    name, schema = named
    shown = escape(name)
    summary = f"<summary><code>{shown}</code></summary>"
    return f'<details id="schema-{shown}">{summary}{_pre(schema)}</details>'


def _pre(schema: Json) -> str:
    return f"<pre>{escape(json_text.encode(schema, option=orjson.OPT_INDENT_2).decode())}</pre>"


def _prose(text: str) -> str:
    """Return text, whose words in backticks are code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if at % 2 else piece for at, piece in enumerate(pieces))
