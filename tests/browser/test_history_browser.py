"""The page of a history in a real browser; skipped by name where there is none."""

import pytest

from coterie.histories import Crash, History
from support.histories.mistakes import CommitsFirst
from support.report.browser import LOCAL

pytest.importorskip("jinja2")
CRASH = Crash(at_ms=0, during="processing")
TWO_MEMBERS = History(members=2, topics={"orders <i>": 3}, minutes=1, events=(CRASH,))
TIPS = """
const chart = echarts.getInstanceByDom(arguments[0]), found = [];
for (let number = 0; number < arguments[1]; number++) {
  chart.dispatchAction({ type: "showTip", seriesIndex: 0, dataIndex: number });
  found.push([...arguments[0].children].map((one) => one.innerText).join("\\n").trim());
}
return found;
"""
ROWS = "return laneRows(DATA.lanes[0]).map((row) => row.join())"


@pytest.fixture
def page(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(TWO_MEMBERS.html(CommitsFirst), encoding="utf-8")
    browser.open(path)
    return browser


def test_the_page_shows_the_lanes_without_a_message_and_without_network(page):
    assert page.texts("figcaption h3") == ["owners"]
    ((marks, ink),) = page.marks()
    assert marks > 5
    assert ink > 3
    assert page.messages() == []
    assert not [url for url in page.requests() if not url.startswith(LOCAL)]


def test_the_page_names_the_lost_record_and_the_event(page):
    (lost,) = TWO_MEMBERS.run(CommitsFirst).lost
    tables = " ".join(page.texts("table"))
    assert repr(lost) in tables
    assert f"event: {CRASH!r}" in tables
    assert not page.all("table i")  # a name is text


def test_each_lane_has_the_owners_of_its_partition_in_the_order_of_time(page):
    rows = page.script(ROWS)
    (chart,) = page.all(".chart")
    tips = page.script(TIPS, chart, len(rows))
    for number in range(3):
        assert any(f"orders <i>/{number}" in tip for tip in tips)
    assert any("member-0" in tip for tip in tips)
    assert any("member-1" in tip for tip in tips)
