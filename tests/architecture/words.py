"""Print how many words each section of the manual has: ``python -m tests.architecture.words``."""

import re

from tests.architecture.test_site import sections
from tests.architecture.tree import ROOT

INTERNAL = "Internals"
"""The section for those who work on Headrace; the manual's size is that of the others."""

_WORD = re.compile(r"\S*\w\S*")


def counted() -> dict[str, dict[str, int]]:
    """Return the words of each page of each section, those of code and tables among them.

    Bars of tables and marks of lists, which have no letter or digit, are none.
    """
    return {
        title: {page: len(_WORD.findall((ROOT / page).read_text())) for page in pages}
        for title, pages in sections().items()
    }


def main() -> None:
    """Print the words of each section, and of the manual without its internals."""
    for title, pages in counted().items():
        print(f"{sum(pages.values()):>7,}  {title}")  # noqa: T201
    users = sum(sum(pages.values()) for title, pages in counted().items() if title != INTERNAL)
    print(f"{users:>7,}  words for users, without {INTERNAL}")  # noqa: T201


if __name__ == "__main__":
    main()
