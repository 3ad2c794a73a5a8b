"""A headless Chromium, and what its console and its network say; skipped by name where absent."""

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
    """One page at a time, waited for until it says what it shows."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path, group=None):
        """Open a page anew, at a group; what was said before is forgotten."""
        self.driver.get("about:blank")
        self.messages()
        self.requests()
        address = path.as_uri() + ("" if group is None else f"#group={quoted(group)}")
        self.driver.get(address)
        self.wait("return document.documentElement.dataset.shown !== undefined")

    def script(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def script_that_ends(self, code, *arguments):
        """Run a script that calls its last argument with what it gives."""
        self.driver.set_script_timeout(HANG_S)
        return self.driver.execute_async_script(code, *arguments)

    def wait(self, code, *arguments):
        """Wait until a script gives something true, and return it."""
        from selenium.webdriver.support.wait import WebDriverWait

        waiting = WebDriverWait(self.driver, HANG_S, poll_frequency=0.05)
        return waiting.until(lambda _: self.script(code, *arguments))

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        (found,) = self.all(selector)
        return found

    def texts(self, selector):
        """The texts of elements, as they are in the page, seen or not."""
        code = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
        return self.script(code, selector)

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def emulate(self, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def messages(self):
        """What the console said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """The addresses that were asked for since the last call."""
        told = [json.loads(entry["message"]) for entry in self.driver.get_log("performance")]
        return [
            one["message"]["params"]["request"]["url"]
            for one in told
            if one["message"]["method"] == "Network.requestWillBeSent"
        ]

    def shown(self):
        """The group that is shown, "" for the overview."""
        return self.script("return document.documentElement.dataset.shown")

    def marks(self):
        """For each chart how many things it draws, and how many colours it has."""
        return [
            (self.script(MARKS, chart), self.script(INK, chart)) for chart in self.all(".chart")
        ]


def quoted(text):
    from urllib.parse import quote

    return quote(text, safe="")
