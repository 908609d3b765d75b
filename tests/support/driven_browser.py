"""A real browser that a test drives over Chromium's DevTools protocol."""

import asyncio
import json
import os
import signal
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection

from tests.support.clients.websocket import connect
from tests.support.resuming_browser import FLAGS, find_browser
from tests.support.starting import start_process
from tests.support.waiting import eventually, until

type Json = dict[str, Any]

_END_TIMEOUT = 60.0
_TIMEOUT = 60.0
_REPORTS = """addEventListener("securitypolicyviolation", (event) => {
  console.error(`CSP ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});"""


_CLOCK = """(() => {
  const names = ["setTimeout", "setInterval", "clearTimeout", "clearInterval"];
  const real = Object.fromEntries(names.map((name) => [name, globalThis[name].bind(globalThis)]));
  const [RealDate, realPerformance] = [Date, performance.now.bind(performance)];
  const timers = new Map();
  let ahead = 0;
  globalThis.realNow = () => RealDate.now();
  globalThis.Date = class extends RealDate {
    constructor(...given) { given.length ? super(...given) : super(RealDate.now() + ahead); }
    static now() { return RealDate.now() + ahead; }
  };
  performance.now = () => realPerformance() + ahead;
  globalThis.setTimeout = (callback, delay = 0, ...given) => {
    const run = () => { clearTimeout(id); callback(...given); };
    const id = real.setTimeout(run, delay);
    timers.set(id, { due: performance.now() + delay, run });
    return id;
  };
  globalThis.setInterval = (callback, delay = 0, ...given) => {
    const timer = { run: () => { timer.due = performance.now() + delay; callback(...given); } };
    const id = real.setInterval(timer.run, delay);
    timer.due = performance.now() + delay;
    timers.set(id, timer);
    return id;
  };
  globalThis.clearTimeout = (id) => { timers.delete(id); real.clearTimeout(id); };
  globalThis.clearInterval = (id) => { timers.delete(id); real.clearInterval(id); };
  globalThis.fastForward = (time) => {
    ahead += time;
    const due = [...timers.values()].filter((one) => one.due <= performance.now());
    for (const { run } of due.sort((one, other) => one.due - other.due)) run();
    return due.length;
  };
})()"""
"""A clock that can be set ahead. Timers that are due then run once, as after a machine's sleep."""


class DevTools:
    """A connection to a browser, or to one of its tabs."""

    def __init__(self, socket: ClientConnection) -> None:
        """Call methods over `socket`."""
        self._socket, self._number = socket, 0
        self._waiting: dict[int, asyncio.Future[Json]] = {}

    async def call(self, method: str, **params: object) -> Json:
        """Call a method of the DevTools protocol."""
        answer = await self._send(method, params)
        return await asyncio.wait_for(answer, _TIMEOUT)

    async def read(self) -> None:
        """Read what the browser sends, until it ends."""
        async for line in self._socket:
            message = json.loads(line)
            if "id" in message:
                waiting = self._waiting.pop(message["id"])
                if not waiting.done():
                    waiting.set_result(message.get("result") or {"error": message.get("error")})
            else:
                await self._note(message["method"], message["params"])

    async def _send(self, method: str, params: Json) -> asyncio.Future[Json]:
        self._number += 1
        answer = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send(
            json.dumps({"id": self._number, "method": method, "params": params})
        )
        return answer

    async def _note(self, method: str, params: Json) -> None:
        """Take note of an event."""


class Page(DevTools):
    """One tab."""

    def __init__(self, socket: ClientConnection) -> None:
        """Drive the tab behind that DevTools connection."""
        super().__init__(socket)
        self.complaints: list[str] = []
        """Errors, violations of the page's policy and dialogs so far."""

    async def open(self, url: str) -> None:
        """Go to `url`; the same one is loaded again."""
        await self.call("Page.navigate", url=url)

    async def reload(self) -> None:
        """Load the page again."""
        await self.call("Page.reload")

    async def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Show the page in a window of that size, in light or dark colours."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        # What moves is drawn 60 times a second, for nobody.
        motion = {"name": "prefers-reduced-motion", "value": "reduce"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme, motion])

    async def install_clock(self) -> None:
        """Have `fast_forward` in the pages that are opened from now on."""
        await self.call("Page.addScriptToEvaluateOnNewDocument", source=_CLOCK)

    async def fast_forward(self, seconds: float) -> None:
        """Set the page's clock ahead; its timers that are due then run once.

        Timeouts of the browser itself, such as those of connections, are not set ahead.
        """
        await self.evaluate(f"fastForward({seconds * 1000})")

    async def evaluate(self, expression: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value of a JavaScript expression, awaited if it is a promise."""
        options = {"returnByValue": True, "awaitPromise": True}
        answer = await self.call("Runtime.evaluate", expression=expression, **options)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"]["exception"]["description"])
        if "result" not in answer:  # The page has gone to another one meanwhile.
            raise AssertionError(answer["error"])
        return answer["result"].get("value")

    async def until(self, expression: str, described: str, timeout: float = _TIMEOUT) -> None:
        """Return once a JavaScript expression is true."""

        async def holds() -> bool:
            try:
                return bool(await self.evaluate(f"Boolean({expression})"))
            except AssertionError:  # the page is still loading
                return False

        try:
            await eventually(holds, described, timeout=timeout)
        except AssertionError as error:
            text = await self.evaluate("document.body.innerText")
            raise AssertionError(f"{error}; it shows {text!r}; {self.complaints}") from None

    async def type(self, selector: str, text: str) -> None:
        """Type `text` into the element, as from a keyboard."""
        element = f"document.querySelector({json.dumps(selector)})"
        has_focus = f"{element} && ({element}.focus(), {element} === document.activeElement)"
        await self.until(has_focus, f"{selector} has the focus")
        await self.call("Input.insertText", text=text)

    async def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key of the keyboard."""
        pressed = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        typed = {"text": text} if text else {}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **pressed, **typed)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)

    async def click(self, selector: str) -> None:
        """Click the element."""
        await self.until(f"document.querySelector({json.dumps(selector)})", f"{selector} is there")
        await self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    async def text(self, selector: str = "body") -> str:
        """Return the text that the element shows."""
        return str(
            await self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        )

    async def picture(self) -> bytes:
        """Return what the window shows, as PNG."""
        shot = await self.call("Page.captureScreenshot", format="png")
        return b64decode(shot["data"])

    async def _note(self, method: str, params: Json) -> None:
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            values = [str(one.get("value", one.get("description"))) for one in params["args"]]
            self.complaints.append(" ".join(values))
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog {params['message']}")
            await self._send("Page.handleJavaScriptDialog", {"accept": False})


@contextmanager
def driven_browser(folder: Path) -> Iterator[str]:
    """Run a browser that keeps its profile under `folder`; yield the address of its DevTools."""
    profile = folder / "profile"
    profile.mkdir(parents=True)
    command = [find_browser(), *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0"]
    process = start_process([*command, "about:blank"], folder / "browser.log")
    file = profile / "DevToolsActivePort"

    def is_open() -> bool:
        return file.exists() and len(file.read_text().splitlines()) > 1

    try:
        until(is_open, "the browser is there", timeout=_TIMEOUT)
        port, path = file.read_text().splitlines()
        yield f"ws://127.0.0.1:{port}{path}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(_END_TIMEOUT)


@asynccontextmanager
async def driven_page(browser: str) -> AsyncIterator[Page]:
    """Yield a tab of the browser at that address, which has nothing that earlier tabs have left.

    All are in one window: each further one, as of a private tab, takes twice as long to open, and
    triples the time that it takes to draw what changes.
    """
    async with _connected(browser) as control:
        made = await control.call("Target.createTarget", url="about:blank")
        address = browser.partition("/devtools/")[0] + f"/devtools/page/{made['targetId']}"
        async with connect(address, max_size=None, proxy=None) as socket:
            page = Page(socket)
            async with _reading(page):
                await page.call("Storage.clearDataForOrigin", origin="*", storageTypes="all")
                await page.call("Network.clearBrowserCookies")
                await page.call("Network.clearBrowserCache")
                for domain in ("Page", "Runtime"):
                    await page.call(f"{domain}.enable")
                await page.call("Page.addScriptToEvaluateOnNewDocument", source=_REPORTS)
                yield page
        await control.call("Target.closeTarget", **made)


@asynccontextmanager
async def _connected(address: str) -> AsyncIterator[DevTools]:
    async with connect(address, max_size=None, proxy=None) as socket:
        tools = DevTools(socket)
        async with _reading(tools):
            yield tools


@asynccontextmanager
async def _reading(tools: DevTools) -> AsyncIterator[None]:
    """Read what is sent, for as long as the block lasts."""
    reading = asyncio.create_task(tools.read())
    try:
        yield
    finally:
        reading.cancel()


def keep_picture(picture: bytes, file: Path) -> None:
    """Write a picture to a file whose folder may be missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(picture)
