"""What docstrings say, as cells of a table in Markdown."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator

_ENTRY = re.compile(r"^\**(\w+): ")


def cell(text: str) -> str:
    """Return a docstring's text in one line, with the code marks and escapes of Markdown."""
    line = " ".join(text.split()).replace("``", "`")
    return line.replace("|", "\\|")


def summary(documented: object) -> str:
    """Return the first paragraph of a docstring."""
    return cell((inspect.getdoc(documented) or "").partition("\n\n")[0])


def arguments(doc: str) -> dict[str, str]:
    """Return what a docstring's ``Args`` says of each, by name."""
    found = dict[str, str]()
    name = ""
    for line in _section(doc, "Args:"):
        if entry := _ENTRY.match(line):
            name = entry[1]
            found[name] = line[entry.end() :]
        else:
            found[name] += f" {line.strip()}"
    return {name: cell(text) for name, text in found.items()}


def _section(doc: str, title: str) -> list[str]:
    """Return the lines of a docstring's section, without their indentation."""
    _, _, after = doc.partition(f"{title}\n")
    lines = after.splitlines()
    end = next((at for at, line in enumerate(lines) if line and not line.startswith(" ")), None)
    return textwrap.dedent("\n".join(lines[:end])).strip().splitlines()


def fields(declared: type) -> Iterator[tuple[str, str, str]]:
    """Yield the name, default and docstring of each public field of a class, in their order."""
    source = textwrap.dedent(inspect.getsource(declared))
    [body] = [node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    for at, node in enumerate(body):
        match node:
            case ast.AnnAssign(ast.Name(name), _, value) if not name.startswith("_"):
                default = ast.unparse(value).replace("'", '"') if value else ""
                yield name, default, cell(_text_after(body, at))


def _text_after(body: list[ast.stmt], at: int) -> str:
    """Return the string that follows a statement."""
    match body[at + 1 : at + 2]:
        case [ast.Expr(ast.Constant(str() as text))]:
            return text
    return ""
