"""The documentation opened from its folder in a browser, without a server.

`make docs` runs these tests on the site that it has built (``COTERIE_SITE``); else they build one.
Without mkdocs or a browser they are skipped by name.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.report.browser import LOCAL, Browser, start

ROOT = Path(__file__).parents[2]
SECTIONS = ["Home", "Start", "Questions", "Coordinator", "Server", "Spark", "Reference"]
# Whether the theme's style sheet applies, its script runs, and all pictures are there.
STATE = """
const position = getComputedStyle(document.querySelector(".md-header")).position;
const whole = [...document.images].every((one) => one.complete && one.naturalWidth > 0);
return [position, typeof document$, whole];
"""
ACTIVE = """
const active = document.querySelector(".md-tabs__item--active");
return document.readyState === "complete" && active.textContent.trim() === arguments[0];
"""
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "benchmarks")


def built(folder):
    """Build the site into a folder, as `make docs` does."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    pages = ROOT / "build" / "pages"
    pages.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        if not (pages / name).is_symlink():
            (pages / name).symlink_to(f"../../{name}")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    driver = start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def site(driver, tmp_path_factory):
    """The folder of the site; a machine without a browser builds none."""
    named = os.environ.get("COTERIE_SITE")
    return Path(named).resolve() if named else built(tmp_path_factory.mktemp("site"))


@pytest.fixture
def browser(driver):
    """The browser; at the end of each test, nothing was wrong and nothing came over the network."""
    found = Browser(driver)
    found.messages(), found.requests()
    yield found
    assert found.messages() == []
    assert not [url for url in found.requests() if not url.startswith(LOCAL)]


@pytest.fixture
def page(browser, site):
    """Open a page of the site, from its file."""

    def opened(name):
        browser.driver.get((site / name).as_uri())
        return browser

    return opened


def test_every_page_has_its_style_and_its_scripts(page, site):
    names = {found.relative_to(site).as_posix() for found in site.rglob("*.html")}
    for name in names - {"404.html"}:  # that one is for a server, whose root its addresses begin at
        shown = page(name).script(STATE)
        assert shown == ["sticky", "object", True], name


@pytest.mark.parametrize("name", ["index.html", "docs/explain.html"])
def test_search_finds_a_term(page, name):
    browser = page(name)
    field = browser.one(".md-search__input")
    field.click()
    field.send_keys("tombstone")
    browser.wait("return document.querySelector('.md-search-result__item') !== null")
    found = browser.texts(".md-search-result__item")
    assert all("tombstone" in text.lower() for text in found)
    browser.script("document.querySelector('.md-search-result__link').click()")
    browser.wait("return location.pathname.includes('/docs/')")
    assert "tombstone" in browser.one(".md-content").text.lower()


def test_each_section_is_reached_from_every_other(page):
    browser = page("index.html")
    tabs = [text.strip() for text in browser.texts(".md-tabs__link")]
    assert [name for name in tabs if name in SECTIONS] == SECTIONS
    for name in reversed(tabs):
        browser.driver.find_element("link text", name).click()
        browser.wait(ACTIVE, name)
        assert browser.one("article h1").text


def test_a_link_between_pages_leads_to_its_heading(page):
    browser = page("docs/start.html")
    link = browser.one("article a[href='explain.html#with-a-brokers-own-logs']")
    browser.script("arguments[0].click()", link)
    browser.wait("return location.hash === '#with-a-brokers-own-logs'")
    assert browser.one("#with-a-brokers-own-logs").text.startswith("With a broker")
