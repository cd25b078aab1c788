"""Headless Chromium over its DevTools protocol: enough to open a page, look at it, and take pictures."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --remote-debugging-port=0"
).split()
SECONDS = 120


def path_of_chromium():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a browser."""

    def __init__(self, connection):
        self._connection, self._number, self.requests = connection, 0, []
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.do(f"{domain}.enable")
        self.problems = []

    def do(self, method, **params):
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            found = json.loads(self._connection.recv(timeout=SECONDS))
            if found.get("method") == "Network.requestWillBeSent":
                self.requests.append(found["params"]["request"]["url"])
            if found.get("method") == "Log.entryAdded":
                self.problems.append(found["params"]["entry"]["text"])
            if found.get("id") == self._number:
                assert "error" not in found, found
                return found["result"]

    def evaluate(self, expression):
        found = self.do("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    def open(self, url):
        self.do("Page.navigate", url=url)
        self.wait(f"location.href.startsWith({url[:20]!r}) && document.readyState === 'complete'")

    def wait(self, condition):
        end = time.monotonic() + SECONDS
        while not self.evaluate(condition):
            assert time.monotonic() < end, self.evaluate("document.body.innerText")
            time.sleep(0.05)

    def look(self, width, height, scheme="light"):
        """Choose the size and the colour scheme."""
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path, whole=True):
        data = self.do("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        Path(path).write_bytes(base64.b64decode(data))


@contextlib.contextmanager
def chromium(executable):
    """Start a browser with a profile of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [executable, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            line = next(line for line in process.stderr if "DevTools listening on" in line)
            address = line.split()[-1]
            with connect(address, max_size=None) as root:
                root.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
                found = json.loads(root.recv(timeout=SECONDS))["result"]["targetInfos"]
            target = next(one["targetId"] for one in found if one["type"] == "page")
            with connect(f"{address.partition('/devtools/')[0]}/devtools/page/{target}", max_size=None) as connection:
                yield Browser(connection)
        finally:
            process.kill()
            process.communicate()
