"""Run commands as forks of a process that has imported them: the program that forks.

Run as a script, with a socket as stdin: each line is a `Request` as JSON, each answer a number. A
process that starts anew spends most of its start on imports, which is most of what a test of it
costs. `tests.support.forked_process` is the other end.

The services that a forked `headrace dev` starts are forks, too, and its children as ever: it has a
fork server of its own, whose forks are handed over to it.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.machinery import PathFinder
from typing import Any, TypedDict

MODULES = {
    "gateway": "headrace_gateway.main",
    "worker": "headrace_worker.main",
    "task-state": "headrace_task_state.main",
    "triggers": "headrace_triggers.main",
    "agents": "headrace_cli.agents",
    "cancel": "headrace_cli.cancel",
    "dead": "headrace_cli.dead.command",
    "dev": "headrace_cli.dev.command",
    "fork": "headrace_cli.fork",
    "schedules": "headrace_cli.schedules",
    "send": "headrace_cli.send",
    "tail": "headrace_cli.tail",
    "tasks": "headrace_cli.tasks",
    "usage": "headrace_cli.usage",
    "workers": "headrace_cli.workers",
}
"""What each command imports first, and all that it needs with it."""

SERVICES = ("gateway", "worker", "task-state", "triggers")
DECLARED = "headrace_cli.dev.declarations"
"""What `headrace dev` starts: services, and what prints the declarations of agents in code."""

HEEDED = ("PYTHONPATH", "PYTHONUNBUFFERED")
"""Python's variables that a fork heeds, too."""

_PR_SET_PDEATHSIG = 1  # prctl(2)
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)


class Start(TypedDict):
    """What a fork is to be."""

    module: str
    """What is run: `headrace_cli`, or what `headrace dev` runs beside it."""
    command: list[str]
    """The program's path, the command's name and its arguments."""
    modules: str
    """The folder in which Python looks for modules first."""
    environment: dict[str, str]
    folder: str | None
    files: list[str]
    """What it reads as stdin, and what it adds its stdout and its stderr to."""
    imports: list[str]
    """More modules that it is to find imported; its successors find them, too."""


class Request(TypedDict):
    """One of the two: start a process and answer its id; answer an ended one's exit code."""

    start: Start | None
    reap: int | None


def serve(requests: socket.socket, fork: Callable[[Sequence[str]], int]) -> Start | None:
    """Answer requests until there are no more: None; in each fork, return what it is to be.

    `fork` has the fork open its files.
    """
    with requests, requests.makefile("rw", encoding="utf-8") as lines:
        for line in lines:
            request: Request = json.loads(line)
            if start := request["start"]:
                for module in (*_modules(start), *start["imports"]):
                    importlib.import_module(module)
                gc.freeze()
                answer = fork(start["files"])
                if answer == 0:
                    return start
            else:
                assert request["reap"] is not None
                answer = os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])
            print(answer, file=lines, flush=True)
    return None


def _modules(start: Start) -> list[str]:
    """Return what to import for a command, once for all that it starts."""
    command = start["command"][1]
    if start["module"] == DECLARED:
        return [DECLARED]
    return [MODULES[one] for one in (command, *(SERVICES if command == "dev" else ()))]


def become(start: Start, parent: int) -> None:
    """Make this fork, a child of `parent`, what ``execve`` would have made of it."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # It ended before the kernel watched it.
        os._exit(1)
    os.setpgid(0, 0)
    if start["folder"] is not None:
        os.chdir(start["folder"])
    coerced = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}
    os.environ.clear()
    if not any(start["environment"].get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG")):
        os.environ.update(coerced)  # As Python sets it where no locale is given.
    os.environ.update(start["environment"])
    sys.argv = list(start["command"])
    sys.path[:1] = [start["modules"], *_given_folders(start["environment"])]
    importlib.invalidate_caches()


def _given_folders(environment: Mapping[str, str]) -> list[str]:
    return list(filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)))


def fork_with(files: Sequence[str]) -> int:
    """Fork a child with these files; return its id, or 0 in it."""
    child = os.fork()
    if child == 0:
        _take(files)
    return child


def _take(files: Sequence[str]) -> None:
    for number, file in enumerate(files):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT if number else os.O_RDONLY
        opened = os.open(file, flags, 0o666)
        os.dup2(opened, number)
        os.close(opened)


def is_heeded(environment: Mapping[str, str]) -> bool:
    """Return whether a fork heeds all variables that a new Python would."""
    return not [key for key in environment if key.startswith("PYTHON") and key not in HEEDED]


class DevProcess(subprocess.Popen[bytes]):
    """A child of `headrace dev`: one of its services is a fork, anything else is started anew."""

    server: socket.socket
    """Where forks are requested."""

    # The arguments are those of the base class, up to the descriptors of the three files.
    def _execute_child(self, args: Sequence[str], *more: Any) -> None:  # noqa: ANN401
        environment, stdin, stdout, stderr = (more[n] for n in (5, 9, 12, 14))
        environment = dict(os.environ) if environment is None else environment
        module, *arguments = args[args.index("-m") + 1 :] if "-m" in args else [""]
        if not _is_forked(module, arguments, environment):
            super()._execute_child(args, *more)  # type: ignore[misc]  # the library's own
            return
        folder = os.getcwd()  # noqa: PTH109  # a string
        start = Start(
            module=module,
            command=["-m", *arguments],
            modules=folder,
            environment=environment,
            folder=folder,
            files=[f"/proc/{os.getpid()}/fd/{each}" for each in (stdin, stdout, stderr)],
            imports=[],
        )
        self.pid = self._forked(start)
        self._child_created = True
        self._close_pipe_fds(*more[9:15])  # type: ignore[attr-defined]

    def _forked(self, start: Start) -> int:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        try:
            with self.server.makefile("rw", encoding="utf-8") as lines:
                print(json.dumps(Request(start=start, reap=None)), file=lines, flush=True)
                return int(lines.readline())
        finally:
            _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 0)


def _is_forked(module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    if module == "headrace_cli" and arguments[0] in SERVICES:
        package = MODULES[arguments[0]].partition(".")[0]
    elif module == DECLARED:
        package = "headrace_cli"
    else:
        return False
    folders = _given_folders(environment)
    has_others = any(PathFinder.find_spec(one, folders) for one in (package, "sitecustomize"))
    return not has_others and is_heeded(environment)


def fork_for_parent(files: Sequence[str]) -> int:
    """Fork a child of this process's parent, which takes what its descendants leave behind.

    Return its id once it has these files; 0: this process is it.
    """
    (ids, its_id), (go, our_go) = os.pipe(), os.pipe()
    between = os.fork()
    if between == 0:
        if os.fork():
            os._exit(0)
        _take(files)
        os.close(our_go)
        os.write(its_id, str(os.getpid()).encode())
        os.read(go, 1)  # Its parent is the other one by then.
        for each in (ids, its_id, go):
            os.close(each)
        return 0
    os.close(its_id)
    os.waitpid(between, 0)
    child = int(os.read(ids, 64))
    for each in (ids, go, our_go):
        os.close(each)
    return child


def serve_parent() -> tuple[Start, int] | None:
    """Start a fork server of this process's own: None; in each of its forks, return what it is."""
    parent = os.getpid()
    DevProcess.server, requests = socket.socketpair()
    if os.fork() == 0:
        DevProcess.server.close()
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        start = serve(requests, fork_for_parent)
        if start is None:
            os._exit(0)
        return start, parent
    requests.close()
    subprocess.Popen = DevProcess  # type: ignore[misc,assignment]
    return None


class QuickEnd:
    """Ends a fork with its exit code once all else that is done at exit is done.

    Python would then delete all modules. That writes to 46 MB, which the kernel copies before,
    because the fork shares them: 40 to 60 ms of processor time.
    """

    def __init__(self) -> None:
        """Be the last to be called at exit: of these callbacks, the first ones come last."""
        self._code: int | None = None
        atexit.register(self._end)

    def run(self, command: Callable[[], object]) -> None:
        """Run a command; if it ends in the ordinary way, remember its exit code."""
        try:
            command()
        except SystemExit as ended:
            if ended.code is None or isinstance(ended.code, int):
                self._code = ended.code or 0
            raise
        self._code = 0

    def _end(self) -> None:
        if self._code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._code & 0xFF)


def main() -> None:
    """Fork until stdin closes; in a fork, be a command until it ends."""
    parent, end = os.getpid(), QuickEnd()
    start = serve(socket.socket(fileno=os.dup(0)), fork_with)
    if start is None:
        return
    if start["command"][1] == "dev":
        start, parent = serve_parent() or (start, parent)
    become(start, parent)
    end.run(partial(_run, start))


def _run(start: Start) -> None:
    if start["command"][0] == "-m":
        sys.modules.pop(DECLARED, None)  # `runpy` warns of a module that is imported already.
        runpy.run_module(start["module"], run_name="__main__", alter_sys=True)
        return
    from headrace_cli.main import main as command_line  # noqa: PLC0415  # not before its path

    sys.exit(command_line())


if __name__ == "__main__":
    main()
