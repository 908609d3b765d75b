"""Notes the functions that a process enters while `$HEADRACE_TRACE/on` exists.

Python imports this at start where its folder is in PYTHONPATH. A thread looks for the file, and
writes what was entered, file and function a line, once it is gone.
"""

import os
import sys
import threading
import time
from pathlib import Path
from types import CodeType

_FOLDER = Path(os.environ.get("HEADRACE_TRACE", "/nonexistent"))
_EVERY = 0.02
_monitoring = sys.monitoring
_TOOL = _monitoring.PROFILER_ID
_entered: set[str] = set()


def _note(code: CodeType, _: int) -> object:
    _entered.add(f"{code.co_filename}\t{code.co_qualname}")
    return _monitoring.DISABLE  # once per code object is enough


def _watch() -> None:
    switch, is_on = _FOLDER / "on", False
    while True:
        if switch.exists() != is_on:
            is_on = not is_on
            if is_on:
                _entered.clear()
                _monitoring.restart_events()
                _monitoring.set_events(_TOOL, _monitoring.events.PY_START)
                (_FOLDER / f"{os.getpid()}.ready").touch()
            else:
                _monitoring.set_events(_TOOL, 0)
                (_FOLDER / f"{os.getpid()}.part").write_text("\n".join(sorted(_entered)))
                (_FOLDER / f"{os.getpid()}.part").rename(_FOLDER / f"{os.getpid()}.entered")
        time.sleep(_EVERY)


if _FOLDER.is_dir():
    _monitoring.use_tool_id(_TOOL, "headrace")
    _monitoring.register_callback(_TOOL, _monitoring.events.PY_START, _note)
    threading.Thread(target=_watch, name="trace", daemon=True).start()
