"""Where an agent's code is, for error messages: ``shop.py:12``."""

import inspect
import sys
import sysconfig
from collections.abc import Callable
from pathlib import PurePath
from types import CodeType, FrameType, TracebackType

_OURS = {"headrace", "headrace_cli", "headrace_worker"}
_LOOPS = {"asyncio.base_events", "asyncio.events", "asyncio.runners"}
_LIBRARIES = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
_PACKAGES = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib")})
_ADAPTERS, _DRIVER = "headrace.adapters.", "headrace.sdk.drive"
_NOT_THE_AUTHORS = ("<frozen ", *_LIBRARIES)


def code_of(function: object) -> CodeType | None:
    """Return the code of a function. None: it is not written in Python."""
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def declared_at(function: object) -> str:
    """Return where a function is declared, in parentheses and with a space before; else nothing."""
    code = code_of(function)
    return "" if code is None else _place(code, code.co_firstlineno)


def raised_at(function: object, trace: TracebackType | None) -> str:
    """Return the line of `function` in `trace`, as `declared_at`; else where it is declared."""
    code, line = code_of(function), 0
    while trace is not None:
        if trace.tb_frame.f_code is code:
            line = trace.tb_lineno
        trace = trace.tb_next
    return _place(code, line) if code is not None and line else declared_at(function)


def imported_at(trace: TracebackType | None) -> str:
    """Return the innermost line in `trace` of the author's own code, as `declared_at`.

    Frames of Python, of installed packages and of Headrace are left out; nothing if there are no
    others.
    """
    found = ""
    while trace is not None:
        frame = trace.tb_frame
        if is_of_author(frame):
            found = _place(frame.f_code, trace.tb_lineno)
        trace = trace.tb_next
    return found


def is_of_author(frame: FrameType) -> bool:
    """Return whether `frame` runs code of none of Python, an installed package and Headrace."""
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    file = frame.f_code.co_filename
    return not (package in _OURS or file.startswith(_NOT_THE_AUTHORS))


def called_at() -> str:
    """Return the innermost line of the author's own code that is being executed, as `declared_at`.

    Nothing if only Python, installed packages and Headrace are.
    """
    return _nearest(sys._getframe(1), is_end=lambda _: False)  # noqa: SLF001 - as `warnings` does


def is_awaited_by_agent(frame: FrameType | None) -> bool:
    """Return whether an agent awaits what `frame` runs, and no framework stands between them.

    Its own package, code that is not installed, Python and the SDK may do so.
    """
    installed, outermost = set[str](), ""
    while frame is not None and frame.f_globals.get("__name__") != _DRIVER:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_ADAPTERS):
            return False
        package = module.partition(".")[0]
        is_installed = frame.f_code.co_filename.startswith(_PACKAGES)
        if package not in _OURS and (is_installed or is_of_author(frame)):
            outermost = package
            installed |= {package} if is_installed else set()
        frame = frame.f_back
    return frame is not None and installed <= {outermost}


def left_at(frame: FrameType | None) -> str:
    """Return the line of the author's own code that `frame` runs for an agent, as `declared_at`.

    Nothing if it runs none: what has called Headrace or an event loop is the program that serves
    the agent.
    """
    return _nearest(frame, is_end=_is_ours_or_a_loop)


def _nearest(frame: FrameType | None, *, is_end: Callable[[FrameType], bool]) -> str:
    """Return the author's line nearest to `frame`, of it and its callers up to where `is_end`."""
    while frame is not None and not is_end(frame):
        if is_of_author(frame):
            return place_of(frame)
        frame = frame.f_back
    return ""


def _is_ours_or_a_loop(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return module.partition(".")[0] in _OURS or module in _LOOPS


def stopped_at(function: object, line: int | None) -> str:
    """Return the place of `line` in the file of `function`, as `declared_at`."""
    code = code_of(function)
    return declared_at(function) if code is None or line is None else _place(code, line)


def null_byte_in(file: PurePath, content: bytes) -> str:
    """Return the message about the first null byte of a module, whose line Python does not name.

    Empty: it has none.
    """
    before, null, _ = content.partition(b"\0")
    line = before.count(b"\n") + 1
    return f"{file.name}:{line}: a null byte; save the file as UTF-8 text" if null else ""


def place_of(frame: FrameType) -> str:
    """Return the line that `frame` is at, as `declared_at`."""
    return _place(frame.f_code, frame.f_lineno)


def _place(code: CodeType, line: int) -> str:
    return f" ({PurePath(code.co_filename).name}:{line})"
