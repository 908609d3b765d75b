"""The page of errors is what the gateway's table says.

``python -m tests.architecture.test_errors_page`` writes it.
"""

from collections.abc import Iterator

from headrace.model.errors import HeadraceError
from headrace_gateway import refusals
from headrace_gateway.problems import PROBLEMS, Problem
from tests.architecture.tree import ROOT

PAGE = ROOT / "docs" / "errors.md"

_HEAD = """\
# Errors

Look up why a request was refused by its reason. JSON-RPC, REST and file downloads return the reason
in an `ErrorInfo` detail, gRPC in `google.rpc.Status`. AG-UI, CopilotKit and the fleet API return
`{"error": {"code", "message"}}`: the code in brackets, or else the reason in lower case.
After an error with Retry-After, the same request may be sent again.

| reason | HTTP, JSON-RPC, gRPC | when |
|---|---|---|
"""
_AS_A2A = """
A2A defines these, with their codes: {}.
"""


def page() -> str:
    """Return the page as it should be."""
    return _HEAD + "".join(rows()) + _AS_A2A.format(", ".join(as_a2a_defines()))


def is_own(kind: type[Exception]) -> bool:
    return kind.__module__.startswith("headrace")


def rows() -> Iterator[str]:
    """Yield one row for each kind of error of Headrace's own."""
    for kind, problem in PROBLEMS.items():
        if is_own(kind):
            yield f"| {' | '.join(_cells(kind, problem))} |\n"


def as_a2a_defines() -> list[str]:
    """Return the reasons of the errors that A2A defines, each once."""
    theirs = (problem.reason for kind, problem in PROBLEMS.items() if not is_own(kind))
    return [f"`{reason}`" for reason in dict.fromkeys(theirs)]


def _cells(kind: type[Exception], problem: Problem) -> list[str]:
    plain = problem.reason.lower()
    code = kind.code if issubclass(kind, HeadraceError) else plain
    named = f"`{problem.reason}`" + (f" (`{code}`)" if code != plain else "")
    status = f"{problem.http_status}, {problem.rpc_code}, {problem.grpc_status}"
    after = "" if problem.retry_after is None else f"; Retry-After {problem.retry_after} s"
    when = (kind.__doc__ or "").splitlines()[0].rstrip(".")
    return [named, status, when + after]


def test_the_page_of_errors_is_made_anew() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.architecture.test_errors_page"


def test_every_refusal_has_a_line_in_the_table() -> None:
    found = [one for one in vars(refusals).values() if isinstance(one, type)]
    kinds = [one for one in found if issubclass(one, Exception) and one is not HeadraceError]
    assert len(kinds) > 10
    missing = [one.__name__ for one in kinds if not set(one.__mro__) & set(PROBLEMS)]
    assert missing == [], "add them to PROBLEMS in headrace_gateway/problems.py"


if __name__ == "__main__":
    PAGE.write_text(page())
