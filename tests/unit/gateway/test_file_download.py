"""What answers with a file say of it."""

import pytest

from headrace.jetstream.objects import FileInfo, FileOwner
from headrace_gateway.file_download import headers_of


def info(filename: str = "", media_type: str = "") -> FileInfo:
    return FileInfo("0123456789abcdef", 5, 1, "digest", filename, media_type, FileOwner("o", "c"))


@pytest.mark.parametrize(
    "declared", ["image/png", "text/plain; charset=latin-1", "application/x+y"]
)
def test_its_type_is_as_its_author_declared(declared: str) -> None:
    assert headers_of(info(media_type=declared))["Content-Type"] == declared


@pytest.mark.parametrize(
    "declared", ["", "png", "text/html\r\nSet-Cookie: a=b", "text/html\n", "text/\u2028", "x/\0"]
)
def test_what_is_no_type_is_not_declared(declared: str) -> None:
    assert headers_of(info(media_type=declared))["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize("name", ['a"b', "a\r\nSet-Cookie: a=b", "ä/../x"])
def test_no_name_ends_the_header(name: str) -> None:
    _, encoded = headers_of(info(filename=name))["Content-Disposition"].split("''")
    assert not set(encoded) & set('"\r\n/ ;')


@pytest.mark.timeout(10)
def test_a_long_type_takes_linear_time() -> None:
    assert headers_of(info(media_type="a" + "/" * 60_000 + "\n"))["Content-Type"] == (
        "application/octet-stream"
    )
