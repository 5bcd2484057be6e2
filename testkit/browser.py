"""Runs Chromium for tests, and controls it by the DevTools protocol, so that only the browser has to be installed.

Each page has its own browser context, so pages share no cookies, logins or caches.
"""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.05
# The keys whose DevTools events need more than a name.
KEYS = {
    "Enter": {"key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13},
    "Space": {"key": " ", "code": "Space", "text": " ", "windowsVirtualKeyCode": 32},
    "Tab": {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9},
}
SHIFT = 8  # the bit of the Shift key in a DevTools key event
MAX_TABS = 150
# The browser reads commands from file descriptor 3 and writes answers to 4. The shell opens these as copies of its own
# standard input and output.
PIPE_SHELL = 'exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null'


class BrowserError(AssertionError):
    """The browser refused a command, or a condition did not come true in time."""


class Browser:
    """The running browser. It gets one command at a time. Events that arrive meanwhile are passed to their page."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self._pages: dict[str, Page] = {}
        self._last_id = 0
        threading.Thread(target=self._read, daemon=True).start()

    def new_page(self, *, width: int = 1600, height: int = 1000, scheme: str = "light") -> Page:
        """Open an empty page. `width`, `height`: in pixels. `scheme`: the system's theme, light or dark."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log"):
            page.send(f"{domain}.enable")
        page.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        return page

    def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a DevTools command, and return its result.

        `session`: the id of a page's session; None for commands to the browser. Raises BrowserError if
        the browser refuses the command or does not answer.
        """
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        self._process.stdin.flush()
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._next_message(deadline, method)
            if answer.get("id") == self._last_id:
                if "error" in answer:
                    raise BrowserError(f"[{method}] was refused: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _next_message(self, deadline: float, method: str) -> dict[str, Any]:
        """The next message of the browser, an answer or an event. An event is also passed to its page."""
        try:
            message = self._messages.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise BrowserError(f"[{method}] was not answered within {TIMEOUT_S:.0f} s") from None
        page = self._pages.get(message.get("sessionId", ""))
        if page and "method" in message:
            page.handle_event(message["method"], message["params"])
        return message

    def _read(self) -> None:
        rest = b""
        assert self._process.stdout
        while chunk := self._process.stdout.read1(1 << 16):  # type: ignore[attr-defined]
            *whole, rest = (rest + chunk).split(b"\0")
            for message in whole:
                self._messages.put(json.loads(message))


class Page:
    """One page. `problems`: the address and text of console errors and warnings, exceptions, and failed loads."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.problems: list[tuple[str, str]] = []
        self._browser = browser
        self._session = session

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.send(method, self._session, **parameters)

    def handle_event(self, method: str, event: dict[str, Any]) -> None:
        """Add a problem if this event of the page reports one. `method`: the event's name."""
        if method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            text = details.get("exception", {}).get("description") or details["text"]
            self.problems.append((details.get("url", ""), text))
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning", "assert"):
            frames = event.get("stackTrace", {}).get("callFrames") or [{"url": ""}]
            words = [str(a.get("value", a.get("description", ""))) for a in event["args"]]
            self.problems.append((frames[0]["url"], " ".join(words)))
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.problems.append((event["entry"].get("url", ""), event["entry"]["text"]))

    def go(self, address: str) -> None:
        """Navigate, and return when the document has changed; its resources may still be loading.

        Raises BrowserError if the address cannot be loaded.
        """
        answer = self.send("Page.navigate", url=address)
        if answer.get("errorText"):
            raise BrowserError(f"[{address}] cannot be shown: {answer['errorText']}")

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression, or the result of its promise. Raises BrowserError if it throws.

        The page's security policy does not apply.
        """
        answer = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"[{expression[:200]}] failed: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_until(self, expression: str) -> Any:
        """Evaluate an expression until its value is true, and return that value. An exception counts as false.

        Raises BrowserError after TIMEOUT_S.
        """
        deadline, last = time.monotonic() + TIMEOUT_S, None
        while time.monotonic() < deadline:
            try:
                last = self.value(expression)
            except BrowserError as error:
                last = str(error)
            else:
                if last:
                    return last
            time.sleep(POLL_INTERVAL_S)
        raise BrowserError(f"never came true: [{expression}], at last [{last}]; console: {self.problems}")

    def fill(self, selector: str, text: str) -> None:
        """Focus a field and insert a text, as a person does. `selector`: of CSS."""
        field = f"document.querySelector({json.dumps(selector)})"
        self.wait_until(f"{field} && ({field}.focus(), true)")
        self.send("Input.insertText", text=text)

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press and release a key. `key`: its name, such as Enter or ArrowLeft."""
        fields = KEYS.get(key, {"key": key, "code": key})
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, modifiers=SHIFT if shift else 0, **fields)

    def tab_to(self, condition: str, *, shift: bool = False) -> None:
        """Press the Tab key until `condition`, JavaScript about the focused element `e`, is true.

        Raises BrowserError after MAX_TABS presses.
        """
        for _ in range(MAX_TABS):
            self.press("Tab", shift=shift)
            if self.value(f"((e) => {condition})(document.activeElement)"):
                return
        raise BrowserError(f"not reached by keyboard: [{condition}]")


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """Run a browser without a window until the end of the block. Its profile and its log are in `folder`."""
    command = [
        "sh", "-c", PIPE_SHELL, str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}", "--hide-scrollbars",
    ]  # fmt: skip
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
    try:
        yield Browser(process)
    finally:
        assert process.stdin
        process.stdin.close()  # the browser exits when it can read no more commands
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
