"""A stub worker that does nothing but tell the stub gateway of its agent, by a file.

If STAND_IN_STUBBORN is set, it ignores SIGTERM and has a child of its own, whose pid it writes to
that file.
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
    if notes := os.environ.get("STAND_IN_STUBBORN"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        Path(notes).write_text(str(child.pid))
    Path("agent-is-there").touch()
    sys.stdout.write(f"runs {target}\n")
    signal.pause()
    return 0
