"""A browser for tests: Chromium by its debugging pipe.

Facts (chromedevtools.github.io): with --remote-debugging-pipe it reads JSON messages from descriptor 3 and
writes them to 4, each ended by a zero byte. No port is opened, and only the standard library is needed.
"""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
NAVIGATED = (
    "Inspected target navigated or closed",
    "Execution context was destroyed.",
    "Cannot find default execution context",
)
"""What it says of a page that is just going, or of one that is just coming."""


class LeftThePageError(Exception):
    """What was asked of a page that was gone before it answered."""


def found() -> str:
    return next(filter(None, map(shutil.which, PROGRAMS)), "")


class Browser:
    """Has a page once `start_afresh` was called."""

    def __init__(self, profile: Path) -> None:
        here, theirs = os.pipe(), os.pipe()
        words = [
            found(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            f"--user-data-dir={profile}", "--remote-debugging-pipe",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.*",
        ]  # fmt: skip
        script = f'exec "$@" 3<&{here[0]} 4>&{theirs[1]}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "chromium", *words],
            pass_fds=(here[0], theirs[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(profile)},
        )
        os.close(here[0])
        os.close(theirs[1])
        self._out, self._in = here[1], theirs[0]
        self._buffer = b""
        self._number = 0
        self._context = self._session = ""
        self.log: list[str] = []

    def start_afresh(self, *, dark: bool = False, width: int = 1000, height: int = 900) -> None:
        """With one empty page, and nothing that any page before it has left: cookies, workers, storage."""
        self._session = ""
        if self._context:
            self.call("Target.disposeBrowserContext", browserContextId=self._context)
        self._context = self.call("Target.createBrowserContext")["browserContextId"]
        page = self.call("Target.createTarget", url="about:blank", browserContextId=self._context)["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.log = []
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            heard = self._hear()
            if heard.get("sessionId", "") != self._session:  # of a page that is gone
                continue
            if heard.get("method") == "Log.entryAdded":
                self.log.append(heard["params"]["entry"]["text"])
            if heard.get("method") == "Runtime.exceptionThrown":
                self.log.append(json.dumps(heard["params"]["exceptionDetails"]))
            if heard.get("id") == self._number:
                if heard.get("error", {}).get("message") in NAVIGATED:
                    raise LeftThePageError(method)
                assert "error" not in heard, heard
                result: dict[str, Any] = heard["result"]
                return result
        raise AssertionError(f"{method} was not answered")

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._in, 1 << 16)
            assert data, "the browser has ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        heard: dict[str, Any] = json.loads(line)
        return heard

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def reload(self) -> None:
        self.run("window.isOld = true")
        self.call("Page.reload")
        self.wait("!window.isOld && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        end = time.monotonic() + PATIENCE
        while not self._holds(condition):
            assert time.monotonic() < end, (
                f"{condition} never came true: {self.run('document.body.innerText')}"
            )
            time.sleep(0.05)

    def _holds(self, condition: str) -> bool:
        try:
            return bool(self.run(f"(() => {{ try {{ return Boolean({condition}) }} catch {{ }} }})()"))
        except LeftThePageError:
            return False

    def press(self, key: str) -> None:
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path: str) -> None:
        import base64

        Path(path).write_bytes(
            base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])
        )

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
