"""A real nginx with the shipped configuration, where it is installed."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.architecture.tree import ROOT
from tests.support.plain_http import NO_TLS
from tests.support.server_process import ServerProcess
from tests.support.servers import ports

_NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")

needs_nginx = pytest.mark.skipif(
    _NGINX is None, reason="nginx is not installed (on Debian: apt-get install nginx-light)"
)


class Nginx(ServerProcess):
    """`deploy/nginx.conf` in front of gateways, on a port of this machine."""

    def __init__(self, folder: Path, gateways: Sequence[str], prefix: str = "") -> None:
        """Make the proxy for `gateways` (their URLs), which are served below `prefix`."""
        super().__init__("nginx", folder)
        self._gateways, self._prefix = gateways, prefix
        self._port = ports.pick()
        self.url = f"http://127.0.0.1:{self._port}{prefix}"

    def command(self) -> list[str]:
        file = self.folder / "nginx.conf"
        file.write_text(self._configuration())
        # One process, so that nothing of it is left when it is killed.
        alone = "daemon off; master_process off;"
        return [str(_NGINX), "-p", str(self.folder), "-e", "stderr", "-c", str(file), "-g", alone]

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", verify=NO_TLS).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def _configuration(self) -> str:
        """Return the shipped configuration with this machine's addresses and folders.

        What is for gRPC is left out, and so is the resolver of the containers' names: nginx before
        1.27.3 has none in an upstream.
        """
        shipped = (ROOT / "deploy" / "nginx.conf").read_text()
        shipped = _replaced(shipped, r"\n    upstream grpc_gateways \{.*?\n    \}\n", "")
        shipped = _replaced(shipped, r"\n    server \{\n        listen 50051;.*?\n    \}\n", "")
        shipped = _replaced(shipped, r"pid /tmp/nginx.pid;", f"pid {self.folder}/nginx.pid;")
        shipped = _replaced(shipped, r" *resolver 127.0.0.11 valid=1s;\n", "")
        address, *rest = re.findall(r"server gateway:8080 resolve ([^;]*);", shipped)
        assert rest == []
        servers = [f"server {one.removeprefix('http://')} {address};" for one in self._gateways]
        shipped = _replaced(shipped, r"server gateway:8080 resolve [^;]*;", "\n".join(servers))
        shipped = _replaced(shipped, r"listen 8080;", f"listen 127.0.0.1:{self._port};")
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
            folder = f"{kind}_temp_path {self.folder}/{kind};"
            shipped = _replaced(shipped, rf"\b{kind}_temp_path /tmp/{kind};", folder)
        if self._prefix:
            below = (
                f"location {self._prefix}/ {{\n proxy_pass http://gateways/;\n"
                f"proxy_set_header X-Forwarded-Prefix {self._prefix};"
            )
            here = r"location / \{\s*proxy_pass http://gateways;"
            shipped = _replaced(shipped, here, below)
            shipped = _replaced(shipped, r' *proxy_set_header X-Forwarded-Prefix "";\n', "")
        return shipped


def _replaced(text: str, pattern: str, instead: str) -> str:
    """Replace what the shipped file has exactly once."""
    replaced, count = re.subn(pattern, lambda _: instead, text, flags=re.DOTALL)
    assert count == 1, pattern
    return replaced
