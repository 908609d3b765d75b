"""The response header for a quota that is nearly used up, or used up and not enforced."""

from urllib.parse import quote

from headrace.tasks.quotas import QuotaWarning
from headrace_gateway.server.open_requests import open_request

QUOTA_HEADER = "Headrace-Quota"


def note_quota(warning: QuotaWarning) -> None:
    """Have the response to the current task's request say it, if that is over HTTP."""
    if (request := open_request()) is not None:
        name = quote(warning.quota, safe="")
        used, limit = f"{warning.used:.10g}", f"{warning.limit:.10g}"
        value = f"{name};{warning.what};used={used};limit={limit};period={warning.period}"
        request.response_headers.append((QUOTA_HEADER.lower().encode(), value.encode()))
