"""A headless Chromium with its console and network log; skips the test if it is not installed."""

import json
import shutil
from contextlib import suppress

import pytest

from support.patience import HANG_S

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--force-color-profile=srgb", "--lang=en"),
)
LOCAL = ("file:", "data:", "about:", "chrome:")  # the last: the tab that a browser begins with
ATTEMPTS = 10  # selenium waits half a minute for a driver, that a minute for its browser
MARKS = """
const storage = echarts.getInstanceByDom(arguments[0]).getZr().storage;
return storage.getDisplayList(true).filter((one) => !one.ignore && !one.invisible).length;
"""
INK = """
const canvas = arguments[0].querySelector("canvas"), colours = new Set();
const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d",
  { willReadFrequently: true });
copy.drawImage(canvas, 0, 0);
const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
for (const one of new Uint32Array(data.buffer)) if (one >>> 24) colours.add(one);
return colours.size;
"""


def start(profile):
    """Start a browser with a profile of its own, or skip."""
    webdriver = pytest.importorskip("selenium.webdriver")
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        pytest.skip("chromium and chromedriver are not installed (Debian: chromium-driver)")
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"):
        options.add_argument(flag)
    options.binary_location = programs[0]
    from selenium.common import WebDriverException

    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for _ in range(ATTEMPTS - 1):
        with suppress(WebDriverException):
            return webdriver.Chrome(options, webdriver.ChromeService(programs[1]))
    return webdriver.Chrome(options, webdriver.ChromeService(programs[1]))


class Browser:
    """A browser with one page at a time."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path, group=None):
        """Load a page, at a group if one is named, and clear the console and network log."""
        self.driver.get("about:blank")
        self.messages()
        self.requests()
        address = path.as_uri() + ("" if group is None else f"#group={quoted(group)}")
        self.driver.get(address)
        self.wait("return document.documentElement.dataset.shown !== undefined")

    def script(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def script_that_ends(self, code, *arguments):
        """Run a script that calls its last argument with its result."""
        self.driver.set_script_timeout(HANG_S)
        return self.driver.execute_async_script(code, *arguments)

    def wait(self, code, *arguments):
        """Wait until a script returns something true, and return it."""
        from selenium.webdriver.support.wait import WebDriverWait

        wait = WebDriverWait(self.driver, HANG_S, poll_frequency=0.05)
        return wait.until(lambda _: self.script(code, *arguments))

    def wait_through_loads(self, code, *arguments, limit_s):
        """The same on a page that loads itself again, which may end a script that runs."""
        from selenium.common import WebDriverException
        from selenium.webdriver.support.wait import WebDriverWait

        wait = WebDriverWait(self.driver, limit_s, 0.05, ignored_exceptions=[WebDriverException])
        return wait.until(lambda _: self.script(code, *arguments))

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        (element,) = self.all(selector)
        return element

    def texts(self, selector):
        """The texts of elements, visible or not."""
        code = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
        return self.script(code, selector)

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def emulate(self, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def messages(self):
        """The console's messages since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """The requested URLs since the last call."""
        entries = [json.loads(entry["message"]) for entry in self.driver.get_log("performance")]
        return [
            entry["message"]["params"]["request"]["url"]
            for entry in entries
            if entry["message"]["method"] == "Network.requestWillBeSent"
        ]

    def shown(self):
        """The displayed group, "" for the overview."""
        return self.script("return document.documentElement.dataset.shown")

    def marks(self):
        """For each chart the number of shapes and of colours."""
        return [
            (self.script(MARKS, chart), self.script(INK, chart)) for chart in self.all(".chart")
        ]


def quoted(text):
    from urllib.parse import quote

    return quote(text, safe="")
