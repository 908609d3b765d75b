"""The package `headrace` imports what it names when that is used."""

import subprocess
import sys

import headrace


def test_every_public_name_is_importable() -> None:
    missing = [name for name in headrace.__all__ if not hasattr(headrace, name)]
    assert not missing


def test_another_name_is_an_attribute_error() -> None:
    assert not hasattr(headrace, "Agnet")


def _imported_by(module: str) -> set[str]:
    """Return what a new process, which has pytest loaded, imports for `module`."""
    code = f"""
import sys, pytest, pytest_asyncio
before = set(sys.modules)
import {module}
print(*set(sys.modules) - before)
"""
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(ran.stdout.split())


def test_the_pytest_plugin_costs_other_projects_no_import() -> None:
    assert _imported_by("headrace.pytest_plugin") == {"headrace", "headrace.pytest_plugin"}


def test_a_gateway_to_embed_is_imported_when_it_is_made() -> None:
    assert _imported_by("headrace; headrace.asgi") & {"headrace_gateway", "starlette"} == set()


def test_a_gateway_to_embed_names_the_extra_that_is_missing() -> None:
    code = """
import sys, headrace
sys.modules["starlette"] = None
headrace.asgi()
"""
    ran = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    error = ran.stderr.splitlines()[-1]
    assert error == "ImportError: starlette is not installed: pip install 'headrace[gateway]'"
