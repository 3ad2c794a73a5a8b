"""The page of a watcher in a real browser: it shows a rebalance by itself."""

import signal

import pytest

from support.insight.lives import commit, life, member, written
from support.log_writer import batch
from support.report.browser import Browser, start
from support.watch.watch_process import watching

pytest.importorskip("jinja2")
LIMIT_S = 300  # for a load, a script, and what a page is to show
DESCRIPTION = """
const texts = [...document.querySelectorAll("figure p")].map((one) => one.textContent);
return texts.some((text) => text.includes(arguments[0]));
"""


@pytest.fixture
def browser(tmp_path):
    driver = start(tmp_path / "profile")
    driver.set_page_load_timeout(LIMIT_S)
    driver.set_script_timeout(LIMIT_S)
    yield Browser(driver)
    driver.quit()


def test_a_page_changes_by_itself_when_its_group_rebalances(browser, tmp_path):
    folder = written(tmp_path, life(1_000, 1, member("m")), commit(2_000, {0: 7}))
    segment = next(folder.glob("*/*.log"))
    with watching(folder) as watch:
        browser.driver.get(f"{watch.url}/groups/g")
        browser.wait_through_loads(DESCRIPTION, "1 member in 1 generation", limit_s=LIMIT_S)
        with segment.open("ab") as file:
            file.write(batch(2, [life(3_000, 2, member("m"), member("n"))]))
        browser.wait_through_loads(DESCRIPTION, "2 members in 2 generations", limit_s=LIMIT_S)
        assert browser.messages() == []
        assert watch.end(signal.SIGTERM) == (0, "")  # while the browser is connected
