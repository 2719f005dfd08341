"""browser.py - a page in Chromium, driven over its debugging pipe: no package is needed but the
browser. Every message is one JSON text that ends with a zero byte (Chrome DevTools Protocol)."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--no-first-run",
    "--disable-dev-shm-usage", "--mute-audio", "--hide-scrollbars", "--remote-debugging-pipe",
]
# Chromium reads from descriptor 3 and writes to 4.
LAUNCH = ("import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
          "os.execv(sys.argv[3], sys.argv[3:])")


class Failed(Exception):
    """The browser answered with an error, or not at all."""


def find():
    """The browser's path, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page:
    """One tab. Errors that the page logs, exceptions and refused loads are collected in `errors`."""

    def __init__(self, url, width=1360, height=1000, dark=False, patience=30):
        self.patience = patience
        self.profile = tempfile.mkdtemp(prefix="tutti-view-")
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 30) for fd in (to_read, to_write)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *map(str, ends), find(), *FLAGS, "--user-data-dir=" + self.profile,
             "--window-size=%d,%d" % (width, height), "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=ends)
        for fd in (to_read, to_write, *ends):
            os.close(fd)
        self.number, self.session, self.rest, self.errors = 0, None, b"", []
        try:
            self.open(url, width, height, dark)
        except BaseException:
            self.close()
            raise

    def open(self, url, width, height, dark):
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.go(url)

    def go(self, url):
        self.ask("Page.navigate", url=url)
        self.wait("document.readyState == 'complete' && (location.href == %s)" % json.dumps(url))

    def ask(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise Failed("%s: %s" % (method, answer["error"]))
                return answer["result"]

    def receive(self):
        end = time.monotonic() + self.patience
        while b"\0" not in self.rest:
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise Failed("the browser does not answer")
            data = os.read(self.back, 1 << 20)
            if not data:
                raise Failed("the browser ended")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(text)
        self.note(message)
        return message

    def note(self, message):
        kind, params = message.get("method"), message.get("params", {})
        if kind == "Runtime.exceptionThrown":
            d = params["exceptionDetails"]
            self.errors.append("exception: %s" % d.get("exception", {}).get("description", d.get("text")))
        elif kind == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append("console: %s" % [a.get("value", a.get("description")) for a in params["args"]])
        elif kind == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append("log: %s" % params["entry"]["text"])
        elif kind == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "about:", "data:")):
            self.errors.append("the page asked for %s" % params["request"]["url"])

    def run(self, script):
        """The value of an expression."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise Failed("%s: %s" % (script, answer["exceptionDetails"].get("exception", {}).get("description")))
        return answer["result"].get("value")

    def wait(self, script):
        end = time.monotonic() + self.patience
        while not self.run(script):
            if time.monotonic() > end:
                raise Failed("waited for " + script)
            time.sleep(0.02)

    def key(self, key, code=0):
        text = {"text": key} if len(key) == 1 else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def mouse(self, kind, x, y, buttons=0):
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left" if buttons or kind == "mouseReleased" else "none",
                 buttons=buttons, clickCount=1 if buttons or kind == "mouseReleased" else 0)

    def click(self, x, y):
        self.mouse("mousePressed", x, y, 1)
        self.mouse("mouseReleased", x, y)

    def picture(self, path, whole=False):
        data = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as out:
            out.write(base64.b64decode(data))

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
