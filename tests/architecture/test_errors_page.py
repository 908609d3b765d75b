"""The page of errors is what the gateway's table says."""

from collections.abc import Iterator

from headrace.model.errors import HeadraceError
from headrace_gateway.problems import Problem, problem_kinds
from tests.architecture.tree import ROOT

_HEAD = """\
# Errors

What a refused request is answered with. Every binding of A2A carries the reason: JSON-RPC and REST
in an `ErrorInfo` detail, gRPC in `google.rpc.Status`. AG-UI, CopilotKit and file downloads answer
`{"error": {"code", "message"}}` with the HTTP status and the code of the last column. An error with
Retry-After may be sent again as it was.

| reason | JSON-RPC | HTTP | gRPC | Retry-After | when | code |
|---|---|---|---|---|---|---|
"""


def rows() -> Iterator[str]:
    """Yield one row for each kind of error."""
    for kind, problem in problem_kinds().items():
        yield f"| {' | '.join(_cells(kind, problem))} |\n"


def _cells(kind: type[Exception], problem: Problem) -> list[str]:
    code = kind.code if issubclass(kind, HeadraceError) else problem.reason.lower()
    is_own = kind.__module__.startswith("headrace")
    when = (kind.__doc__ or "").splitlines()[0].rstrip(".") if is_own else "as A2A defines it"
    retry = "" if problem.retry_after is None else f"{problem.retry_after} s"
    status = [f"{problem.rpc_code}", f"{problem.http_status}", problem.grpc_status]
    return [f"`{problem.reason}`", *status, retry, when, f"`{code}`"]


def test_the_page_of_errors_is_made_anew() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    assert page == _HEAD + "".join(rows()), "write what the assertion shows to docs/errors.md"
