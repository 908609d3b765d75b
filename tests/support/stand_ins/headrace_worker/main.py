"""A stub worker: a file announces its agent to the stub gateway.

If STAND_IN_IGNORES_SIGTERM names a file, the worker ignores SIGTERM, starts a process and writes
its pid to that file.
"""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path


def run(target: str, _config: str = "", *, reload: bool) -> int:
    assert not reload, "headrace dev replaces its workers itself"
    module = target.partition(":")[0]
    if find_spec(module) is None:
        sys.stderr.write(f"no module named {module}\n")
        return os.EX_CONFIG
    if notes := os.environ.get("STAND_IN_IGNORES_SIGTERM"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        Path(notes).write_text(str(child.pid))
    Path("agent-is-there").touch()
    sys.stdout.write(f"runs {target}\n")
    signal.pause()
    return 0
