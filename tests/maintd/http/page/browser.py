"""A headless Chromium driven over a pair of pipes; nothing of it is on any network."""

import base64
import fcntl
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests import needs

CHROMIUM = needs.chromium()
_REPEATED = "window.repeatedWork"  # the functions that a page gave to setInterval
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-extensions", "--hide-scrollbars", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"),
)


class Browser:
    """One tab. `said` are all messages of the console and log, and every uncaught exception."""

    def __init__(self, reading: int, writing: int) -> None:
        self.said: list[str] = []
        self.loaded: list[str] = []
        self._reading, self._writing = reading, writing
        self._number = 0
        self._left = b""
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{part}.enable")
        keep = f"{_REPEATED} = []; window.setInterval = (work) => {_REPEATED}.push(work)"
        self.call("Page.addScriptToEvaluateOnNewDocument", source=keep)

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """One command of the DevTools protocol, and its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(30)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def open(self, url: str) -> None:
        """Load a page to its end."""
        self._events: list[str] = []
        self.call("Page.navigate", url=url)
        self.wait_for_load()

    def renew(self) -> None:
        """Have the page do now what it does again and again, and wait for it."""
        self.run(f"Promise.all(({_REPEATED} || []).map((work) => work()))")

    def wait_for_load(self) -> None:
        """Wait until the page that a click leads to is loaded."""
        self._wait_for("Page.loadEventFired")
        self._events = []

    def _wait_for(self, event: str) -> None:
        while event not in self._events:
            self._next(30)

    def run(self, script: str) -> Any:
        """The value of an expression in the page, or of its promise."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        result = self.call("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def picture(
        self, path: str, width: int = 1200, *, dark: bool = False, whole: bool = True
    ) -> None:
        """The page as a PNG, the whole of it or what fits a screen."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def _next(self, seconds: float) -> Mapping[str, Any]:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._reading], [], [], deadline - time.monotonic())
            assert ready, "the browser says nothing"
            data = os.read(self._reading, 1 << 20)
            assert data, "the browser has ended"
            self._left += data
        text, _, self._left = self._left.partition(b"\0")
        message = json.loads(text)
        method, params = message.get("method", ""), message.get("params", {})
        if method:
            self._events.append(method) if hasattr(self, "_events") else None
        if method == "Log.entryAdded":
            self.said.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.said.append(str(params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.said.append(str(params["exceptionDetails"]))
        elif method == "Page.javascriptDialogOpening":
            self.said.append(f"dialog: {params['message']}")
        elif method == "Network.requestWillBeSent":
            self.loaded.append(params["request"]["url"])
        return dict(message)


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium until the end of the block; its folder goes with it."""
    assert CHROMIUM is not None
    to_it, ours = os.pipe()
    theirs, from_it = os.pipe()[::-1]
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as folder:

        def wire() -> None:  # the protocol wants them as 3 and 4, where either may lie already
            reads = fcntl.fcntl(to_it, fcntl.F_DUPFD, 5)
            writes = fcntl.fcntl(theirs, fcntl.F_DUPFD, 5)
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        process = subprocess.Popen(
            [CHROMIUM, *_FLAGS, f"--user-data-dir={folder}"],
            preexec_fn=wire,
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "HOME": folder},
        )
        os.close(to_it)
        os.close(theirs)
        try:
            yield Browser(from_it, ours)
        finally:
            os.close(ours)
            os.close(from_it)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
