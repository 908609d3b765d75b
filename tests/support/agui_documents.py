"""Extract code from AG-UI's 0.x documents, or from the fixture in their form.

The documents have no line breaks and no type arguments: line breaks are restored where code needs
them, at what begins a statement or a field, and behind comments.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.support.given_documents import needs, path_of

_NAME = "agui-docs-0.x.txt"
needed = needs(_NAME)
"""Marks a test that compares with the documents themselves."""

_SOURCE = re.compile(r"Source: https://docs\.ag-ui\.com/(\S+)")
_DECLARED = re.compile(
    r"(?:^|(?<=\s))(?:export )?(interface|type|enum|class|const|case|async def|def) ([\w.]+)"
)
_ASSIGNED = re.compile(r"(\w+) = ")
_NAMED = re.compile(r'(?:name|op|type|id)"?: "?([\w./@-]+)')

_BEGINS = re.compile(
    r"(const|let|import|export|break|throw|protected|private|return)\b(?! as )"
    r"|if \(|for await \(|switch ?\(|try \{|case \w+\.|interface \w+ \{|type \w+ =|class [A-Z]"
    r"|constructor\(|super\(|this\.\w+ ="
    r"|(observer|console)\.\w+\(|observer\.complete|[a-z]\w*\??: |agent\.runAgent|agent \."
)
"""What begins a statement or a field, wherever it stands."""
_RESUMES = re.compile(
    rf"{_BEGINS.pattern}|[)}}\]{{]|;\[|\.\.\.\(|\.[a-z]+\(|[a-z]\w* ?\.[a-z]\w+|[a-z]\w+\(\{{"
    r"|[a-z]+[A-Z]\w*,|else if"
)
"""What is no longer a comment."""
_SAME_LINE = ("private", "protected", "async", "export")
"""Words that a line does not end with."""

_PYTHON_STATEMENT = re.compile(r"[a-z_]+ = |(from|print)\b[ (]", re.ASCII)
_PYTHON_FIELD = re.compile(r"[a-z_]+: |[A-Z_]+ = |(def|if|raise)\b ", re.ASCII)
_PYTHON_INDENT = {"if": 8, "raise": 12}


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code."""

    page: str
    language: str
    name: str
    """What it is called in the table; unlike that of any other of its page."""
    code: str
    """As it stands: the documents have it in one line."""

    @property
    def lines(self) -> str:
        """The code with its line breaks."""
        if "\n" in self.code:
            return self.code
        if self.language == "python":
            return _laid_out_python(self.code)
        return _laid_out(self.code)


@cache
def blocks() -> list[Block]:
    """Return all blocks, in order."""
    return list(_blocks())


def _blocks() -> Iterator[Block]:
    page, seen = "", Counter[tuple[str, str]]()
    for at, piece in enumerate(path_of(_NAME).read_text(encoding="utf-8").split("```")):
        if at % 2 == 0:
            page = [page, *_SOURCE.findall(piece)][-1]
            continue
        language, code = re.split(r"\s", piece, maxsplit=1)
        name = f"{language or 'text'} {_name(language, code.strip())}"
        seen[page, name] += 1
        number = f" ({seen[page, name]})" if seen[page, name] > 1 else ""
        yield Block(page, language, name + number, code.strip())


def _name(language: str, code: str) -> str:
    """Return what a block declares or else begins with."""
    if language in {"mermaid", "bash"}:
        words = re.sub(r"# .*?(?=export|pnpm|$)", "", code).split()
        return " ".join(words[:2])
    if code.startswith("{"):
        named = _NAMED.search(code)
        return f"{{{named[1] if named else code[2:12].strip()}}}"
    if declared := _DECLARED.search(code):
        return f"{declared[1]} {declared[2]}"
    if language == "python" and (assigned := _ASSIGNED.match(code)):
        return assigned[1]
    return " ".join(re.sub(r"^// ", "", code).split()[:3])


def _laid_out(code: str) -> str:
    """Return TypeScript or JSON with line breaks."""
    out, at, commented = list[str](), 0, False
    while at < len(code):
        begins = at == 0 or code[at - 1] == " "
        if begins and commented and _RESUMES.match(code, at):
            out, commented = [*out, "\n"], False
        elif begins and not commented and code.startswith("//", at):
            commented = True
        elif begins and not commented and _BEGINS.match(code, at):
            out += [] if code[:at].rstrip().endswith(_SAME_LINE) else ["\n"]
        end = at + 1 if commented else _string_end(code, at)
        out.append(code[at:end])
        at = end
    return "".join(out)


def _string_end(code: str, at: int) -> int:
    """Return where the string that begins at `at` ends; else the next character's place."""
    quote = code[at]
    if quote not in "\"'`":
        return at + 1
    found = re.compile(rf"(?:\\.|[^\\{quote}])*{quote}").match(code, at + 1)
    return found.end() if found else at + 1


def _laid_out_python(code: str) -> str:
    """Return Python with line breaks, as far as classes of fields and statements need."""
    is_class = code.startswith("class ")
    out, depth, at, commented = list[str](), 0, 0, False
    head = code.index("):") + 2 if is_class else 0
    pattern = _PYTHON_FIELD if is_class else _PYTHON_STATEMENT
    while at < len(code):
        begins = at and code[at - 1] == " " and at > head and depth == 0
        found = pattern.match(code, at) if begins else None
        if found is not None:
            word = found[1] or ""
            out.append("\n" + " " * (_PYTHON_INDENT.get(word, 4) if is_class else 0))
            commented = False
        elif begins and code.startswith("# ", at):
            commented = True
        end = at + 1 if commented else _string_end(code, at)
        if not commented and end == at + 1:
            depth += (code[at] in "([{") - (code[at] in ")]}")
        out.append(code[at:end])
        at = end
    return "".join(out)
