"""Make the documentation's pictures of pages: `make pictures`.

Needs chromium and chromedriver, like the tests of these pages.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.report.browser import Browser, start  # noqa: E402

CLICKS = """
const select = document.getElementById("partition");
select.selectedIndex = [...select.options].findIndex((one) => one.text === "clicks: all");
select.dispatchEvent(new Event("change"));
"""
PICTURES = {  # file -> command, group of a report, width and height in px, a script to run first
    "report.png": (
        ["report", "tests/golden/logs/basic"],
        *("grp-java-cooperative-sticky", 1400, 1485, CLICKS),
    ),
    "designs.png": (
        ["designs", "compare", "long-cut", "--format", "html"],
        *(None, 1100, 1980, ""),
    ),
}
PAINTED = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));"


def main() -> None:
    """Make each picture in docs/."""
    with tempfile.TemporaryDirectory() as folder:
        driver = start(Path(folder) / "profile")
        try:
            for name, (command, group, width, height, first) in PICTURES.items():
                page = Path(folder) / f"{name}.html"
                coterie = [sys.executable, "-m", "coterie", *command, "-o", str(page)]
                subprocess.run(coterie, check=True, cwd=ROOT)
                shape = dict(width=width, height=height, deviceScaleFactor=1, mobile=False)
                driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
                driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
                browser = Browser(driver)
                browser.emulate("light")
                browser.open(page, group)
                browser.script(first)
                browser.script_that_ends(PAINTED)
                driver.save_screenshot(str(ROOT / "docs" / name))
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
