"""Headless Chromium, driven over a pipe by its own protocol: no package is needed for it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


class Browser:
    """One page in one browser."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        assert CHROMIUM is not None
        # Chromium's helpers write after it has ended
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read_command, write_command = os.pipe()
        read_answer, write_answer = os.pipe()

        def place_pipes() -> None:
            """Put the pipes where the browser reads and writes: 3 and 4.

            They are put aside first, because a pipe may have one of these numbers.
            """
            os.dup2(read_command, 30)
            os.dup2(write_answer, 31)
            os.dup2(30, 3)
            os.dup2(31, 4)

        self._process = subprocess.Popen(
            [
                CHROMIUM,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--remote-debugging-pipe",
                f"--user-data-dir={self._folder.name}",
            ],
            preexec_fn=place_pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_command)
        os.close(write_answer)
        self._commands = os.fdopen(write_command, "wb")
        self._answers = os.fdopen(read_answer, "rb", buffering=0)
        self._unread = b""
        self._number = 0
        self._session = ""
        self.complaints: list[str] = []
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.do(f"{domain}.enable")
        self.resize(width, height)

    def do(self, method: str, **params: Any) -> Any:
        """Send a command and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = self._read_message()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return answer["result"]
            if answer.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.complaints.append(json.dumps(answer["params"])[:500])

    def _read_message(self) -> Any:
        while b"\0" not in self._unread:
            piece = self._answers.read(65_536)
            if not piece:
                raise RuntimeError("The browser has ended.")
            self._unread += piece
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)

    def resize(self, width: int, height: int) -> None:
        """Give the page another size, as on a small screen."""
        self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def open(self, url: str) -> None:
        """Go to a page."""
        self.do("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """Return the value of a script."""
        result = self.do(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def wait(self, script: str, seconds: float = 120) -> None:
        """Wait until a script is true."""
        until = time.monotonic() + seconds
        while not self.run(f"Boolean({script})"):
            if time.monotonic() > until:
                raise TimeoutError(f"{script}; the page: {self.run('document.body.innerText')}")
            time.sleep(0.05)

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page to a PNG file."""
        height = self.run("document.documentElement.scrollHeight")
        width = self.run("window.innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        result = self.do("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(result["data"]))

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._commands.close()
        self._answers.close()
        self._folder.cleanup()
