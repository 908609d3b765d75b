"""The files that agents consist of: where they are, and when one of them is saved."""

import os
import sysconfig
from collections.abc import AsyncIterator, Iterator
from importlib import invalidate_caches
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from headrace_cli.failures import Misconfigured

_DEBOUNCE = 200
"""Milliseconds from one save to the next within which both count as one."""

_INSTALLED = {
    Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")
}
"""Folders of installed packages, which are not edited."""


def roots_of(targets: str, folder: Path) -> list[Path]:
    """Return the folders from which the agents of `targets` (MODULE:ATTR, …) are imported.

    `folder` is always one of them: modules that the agents import can be there. Folders of
    installed packages are left out.
    """
    invalidate_caches()
    found = {folder}
    for target in filter(None, targets.split(",")):
        found.update(_origin(target.partition(":")[0].partition(".")[0]))
    return sorted(found)


def _origin(package: str) -> Iterator[Path]:
    try:
        spec = find_spec(package)
    except ValueError:  # a module without a spec, such as __main__
        return
    if spec is None:
        return
    places = [Path(one) for one in spec.submodule_search_locations or [spec.origin or ""]]
    for place in places:
        if place.exists() and not _INSTALLED.intersection(place.parents):
            yield place.parent.absolute()


async def saves(roots: list[Path], config: Path) -> AsyncIterator[set[Path]]:
    """Yield the Python files below `roots` that were saved or deleted, and `config` if it was.

    Only folders with Python files are watched: data, virtual environments and node_modules can be
    large.

    Raises:
        Misconfigured: the package that watches folders is not installed.
    """
    try:
        from watchfiles import awatch  # noqa: PLC0415  # an extra: needed for this alone
    except ModuleNotFoundError:
        raise Misconfigured(
            "reloading on save needs watchfiles: pip install 'headrace[dev]', or use --no-reload"
        ) from None

    def is_code(_: object, path: str) -> bool:
        return path.endswith(".py") or Path(path) == config

    while True:
        folders = folders_with_code(roots) | {config.parent}
        async for changes in awatch(
            *folders, watch_filter=is_code, recursive=False, debounce=_DEBOUNCE, step=_DEBOUNCE // 4
        ):
            yield {Path(path) for _, path in changes}
            if folders_with_code(roots) | {config.parent} != folders:
                break


def folders_with_code(roots: list[Path]) -> set[Path]:
    """Return `roots` and the packages below them: folders with a module's name and Python files."""
    found = set(roots)
    for root in roots:
        for path, below, _ in os.walk(root):
            below[:] = [name for name in below if _is_package(Path(path, name))]
            found.update(Path(path, name) for name in below)
    return found


def _is_package(folder: Path) -> bool:
    return folder.name.isidentifier() and folder.name != "__pycache__" and any(folder.glob("*.py"))


def forget_bytecode(files: set[Path]) -> None:
    """Delete the cached bytecode of `files`.

    Python takes bytecode for current if its file has the same size and the same second of change:
    two saves within a second can look the same.
    """
    for file in files:
        if file.suffix == ".py":
            Path(cache_from_source(str(file))).unlink(missing_ok=True)
