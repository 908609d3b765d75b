"""A nats-server whose clock shows another time than the machine's.

Every process of Linux has code of the kernel's mapped for asking the time, which a statically
linked server calls, too. Before the server's first instruction that code is replaced in its memory
by one that adds a number of seconds to the time of day. Monotonic time stays, and so do timeouts.
"""

import ctypes
import os
import platform
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.servers import NatsProcess

CAN_SHIFT = sys.platform == "linux" and platform.machine() == "x86_64"
"""Whether this machine's kernel code is one that this module replaces."""

_TRACE_ME, _DETACH = 0, 17  # ptrace(2)
_LIBC = ctypes.CDLL(None, use_errno=True)
_KERNEL_CODE = 33  # AT_SYSINFO_EHDR of getauxval(3)
_SYMBOLS = 11  # SHT_DYNSYM of elf(5)
_HEADER = 0x40
_FUNCTION = b"__vdso_clock_gettime"
_BEFORE = bytes.fromhex("b8e40000000f0585ff750d48ba")
"""``mov eax, 228; syscall; test edi, edi; jne end; mov rdx, SECONDS``: 228 is clock_gettime, and 0
in edi the time of day."""
_AFTER = bytes.fromhex("480116c3")
"""``add [rsi], rdx; end: ret``."""


class ShiftedNats(NatsProcess):
    """One nats-server with JetStream, whose clock is ahead by `shift` seconds once it starts."""

    shift: int = 0

    def _launched(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as lines:
            process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=lines,
                stderr=lines,
                cwd=self.folder,
                preexec_fn=_to_be_traced,  # noqa: PLW1509  # it only calls the kernel
            )
        try:
            os.waitpid(process.pid, os.WUNTRACED)
            _shift(process.pid, self.shift)
        except BaseException:
            process.kill()
            raise
        finally:
            _LIBC.ptrace(_DETACH, process.pid, None, None)
        return process


def _to_be_traced() -> None:
    _LIBC.prctl(1, signal.SIGKILL)  # It ends with the thread that starts it.
    _LIBC.ptrace(_TRACE_ME, 0, None, None)


def _shift(pid: int, seconds: int) -> None:
    """Shift the time of day of a process that has not run yet."""
    start = next(value for kind, value in _auxiliary(pid) if kind == _KERNEL_CODE)
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(start)
        offset = _offset_of(_FUNCTION, memory.read(0x2000))
        memory.seek(start + offset)
        memory.write(_BEFORE + struct.pack("<q", seconds) + _AFTER)


def _auxiliary(pid: int) -> Iterator[tuple[int, int]]:
    """Yield what the kernel has told the process."""
    return struct.iter_unpack("QQ", Path(f"/proc/{pid}/auxv").read_bytes())


def _offset_of(name: bytes, image: bytes) -> int:
    """Return where a function is in an ELF image."""
    (table,) = struct.unpack_from("<Q", image, 0x28)
    size, number = struct.unpack_from("<HH", image, 0x3A)
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", image, table + size * one) for one in range(number)
    ]
    [symbols] = [one for one in sections if one[1] == _SYMBOLS]
    names = sections[symbols[6]][4]
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name_at, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", image, at)
        begin = names + name_at
        if image[begin : image.index(b"\0", begin)] == name:
            return int(value)
    raise AssertionError(f"the kernel's code has no {name.decode()}")
