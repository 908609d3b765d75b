"""Packages of this environment in another one, without an installation."""

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement


def pinned(requirements: Path) -> Iterator[Distribution]:
    """Yield what this environment has of a file of requirements, which it must have exactly.

    Raises:
        AssertionError: a version is another one.
    """
    for line in re.findall(r"^\S.*==.*$", requirements.read_text(), re.MULTILINE):
        wanted = Requirement(line.removesuffix("\\"))
        if wanted.marker is None or wanted.marker.evaluate():
            found = distribution(wanted.name)
            assert wanted.specifier.contains(found.version, prereleases=True), (line, found.version)
            yield found


def link(packages: Iterable[Distribution], site: Path) -> None:
    """Link each file of `packages`, and what it was compiled to, into a ``site-packages``."""
    for package in packages:
        for file in package.files or ():
            if file.parts[0] != "..":
                _link(Path(str(package.locate_file(file))), site / file)
                if file.suffix == ".py":
                    compiled = cache_from_source(str(package.locate_file(file)))
                    _link(Path(compiled), Path(cache_from_source(str(site / file))))


def _link(source: Path, target: Path) -> None:
    if source.exists() and not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source)
