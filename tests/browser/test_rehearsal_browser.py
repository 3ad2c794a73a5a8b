"""The page of a rehearsal in a real browser; skipped by name where there is none."""

import pytest

from coterie.histories.rehearsal.page import render
from coterie.histories.rehearsal.result import outcomes
from coterie.histories.rehearsal.variants import read_variant
from support.golden_data import GOLDEN
from support.histories.rehearsed import histories_of
from support.report.browser import LOCAL

pytest.importorskip("jinja2")
HOSTILE = "</script><script>window.pwned = 1</script>"
FILLS = """
const storage = echarts.getInstanceByDom(arguments[0]).getZr().storage;
return storage.getDisplayList(true).filter((one) => !one.ignore && !one.invisible && one.shape)
  .map((one) => one.style.fill);
"""
TIP = """
const [holder, number] = arguments, chart = echarts.getInstanceByDom(holder);
chart.dispatchAction({ type: "showTip", seriesIndex: 0, dataIndex: number });
return [...holder.children].map((one) => one.innerText).join("\\n").trim();
"""
ROWS = "return laneRows(DATA.lanes[arguments[0]]).map((row) => row.join())"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The page of a group with crashes under the consumer protocol, and what it shows."""
    (history,) = histories_of(GOLDEN / "incidents" / "departures" / "log", "killed")
    history.ops[-1]["consumer"] = HOSTILE
    found = list(outcomes(history, [read_variant("protocol=consumer")], plays=1, timelines=True))
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text("".join(render(history, found)), encoding="utf-8")
    return path, found


def test_the_page_shows_a_lane_for_the_log_and_each_play_without_network(browser, made):
    browser.open(made[0])
    assert browser.texts("figcaption h3") == ["the log", "as it was", "protocol=consumer"]
    assert all(marks > 5 and ink > 3 for marks, ink in browser.marks())
    assert browser.messages() == []
    assert not [url for url in browser.requests() if not url.startswith(LOCAL)]
    assert browser.script("return window.pwned === undefined")


def test_worse_moments_are_marked_in_their_lane_and_listed(browser, made):
    path, found = made
    browser.open(path)
    warn = browser.script("return colour('warn')")
    fills = [browser.script(FILLS, chart).count(warn) for chart in browser.all(".chart")]
    assert fills == [0, 0, len(found[1].worse)]
    (worst, *_) = found[1].worse
    rows = browser.script(ROWS, 2)
    number = next(at for at, row in enumerate(rows) if row.startswith(f"2,{worst.moment.at},"))
    tip = browser.wait(TIP, browser.all(".chart")[2], number)
    assert tip.startswith(f"worse: {worst.moment.cause}")
    tables = browser.texts("table")
    assert worst.moment.cause in tables[1]
    assert "protocol=consumer" in tables[0]


def test_nothing_is_wider_than_a_narrow_window(browser, made):
    browser.driver.set_window_size(500, 900)
    try:
        browser.open(made[0])
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert browser.script(wide) == 0
    finally:
        browser.driver.set_window_size(1280, 900)
