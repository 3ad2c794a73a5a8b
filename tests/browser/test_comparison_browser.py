"""The page of a comparison in a real browser; skipped by name where there is none."""

import pytest

from coterie.designs import DESIGNS, page
from support.designs.comparison_pages import HOSTILE, data_of, large, made
from support.report.browser import LOCAL

pytest.importorskip("jinja2")
TWO_OWNERS = "#d55e00"
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
def cut(tmp_path_factory):
    """The page of ``long-cut``, and its data."""
    folder = tmp_path_factory.mktemp("cut")
    return folder / "page.html", data_of(made(folder, "long-cut"))


def keys():
    return pytest.importorskip("selenium.webdriver").Keys


def test_the_page_loads_without_a_message_and_without_network(browser, cut):
    path, data = cut
    browser.open(path)
    assert browser.texts("figcaption h3") == list(DESIGNS)
    assert all(marks > 20 and ink > 5 for marks, ink in browser.marks())
    assert len(browser.marks()) == len(data["lanes"])
    assert browser.messages() == []
    assert not [url for url in browser.requests() if not url.startswith(LOCAL)]


def test_two_owners_have_a_colour_of_their_own_in_every_lane(browser, cut, tmp_path):
    path, data = cut
    browser.open(path)
    for chart, lane in zip(browser.all(".chart"), data["lanes"], strict=True):
        shared = [bar for bar in lane["bars"] if len(lane["owners"][bar[3]]) > 1]
        assert browser.script(FILLS, chart).count(TWO_OWNERS) == len(shared) > 0
    data = data_of(made(tmp_path, "join-and-close"))
    browser.open(tmp_path / "page.html")
    for chart in browser.all(".chart"):
        assert TWO_OWNERS not in browser.script(FILLS, chart)


def test_rebalances_are_marked_where_they_began(browser, cut):
    path, data = cut
    browser.open(path)
    accent = browser.script("return colour('accent')")
    for chart, lane in zip(browser.all(".chart"), data["lanes"], strict=True):
        assert browser.script(FILLS, chart).count(accent) == len(lane["rebalances"]["marks"])


def clock(ms):
    minutes, rest = divmod(ms, 60_000)
    return f"{minutes}:{rest / 1000:06.3f}".removesuffix(".000")


def test_a_bar_tells_its_owners_and_its_times(browser, cut):
    path, data = cut
    browser.open(path)
    rows = browser.script(ROWS, 0)
    (bar, *_) = [
        bar for bar in data["lanes"][0]["bars"] if bar[0] == 0 and bar[2] - bar[1] > 80_000
    ]
    number = rows.index(",".join(map(str, [bar[0] + 2, *bar[1:]])))
    told = browser.wait(TIP, browser.all(".chart")[0], number)
    assert told.splitlines()[0] == "topic1/0"
    assert "c1" in told
    assert f"{clock(bar[1])} to {clock(bar[2])} (for {clock(bar[2] - bar[1])})" in told
    labels = "return echarts.getInstanceByDom(arguments[0]).getOption().xAxis[0].axisLabel"
    shown = f"{labels}.formatter(arguments[1])"
    chart = browser.all(".chart")[0]
    times_ms = (0, 65_000, 1_170_000, 3_600_250)
    texts = [browser.script(shown, chart, time_ms) for time_ms in times_ms]
    assert texts == ["0:00", "1:05", "19:30", "1:00:00.250"]


def test_costs_are_a_table_with_a_dash_for_what_there_is_not(browser, cut):
    path, _ = cut
    browser.open(path)
    heads = browser.texts("table:first-of-type thead th")[: 2 + len(DESIGNS)]
    assert heads == ["Cost", "What is summed", *DESIGNS]
    cells = {
        row.find_element("css selector", "th").text: [
            cell.text for cell in row.find_elements("css selector", "td")[1:]
        ]
        for row in browser.all("table")[0].find_elements("css selector", "tbody tr")
    }
    assert cells["watch_events"][2:] == cells["zookeeper_operations"][2:] == ["-", "-"]
    assert cells["rebalances"] == ["8", "4", "4", "4"]


def test_each_lane_can_be_read_as_a_table_by_the_keyboard_alone(browser, cut):
    path, data = cut
    browser.open(path)
    for figure, lane in zip(browser.all("figure"), data["lanes"], strict=True):
        tables = {"bars": lane["bars"], "marks": lane["rebalances"]["marks"]}
        summaries = figure.find_elements("css selector", "summary")
        for summary, rows in zip(summaries, tables.values(), strict=True):
            summary.send_keys(keys().ENTER)
            holder = summary.find_element("xpath", "..")
            browser.wait("return arguments[0].querySelector('table') !== null", holder)
            shown = holder.find_elements("css selector", "tbody tr")
            assert len(shown) == min(len(rows), 50)
        assert (
            len(figure.find_element("css selector", "[role=img]").get_attribute("aria-label")) > 30
        )
    first = browser.all("figure tbody tr")[0].text.split()
    assert first[0] == "topic1/0"


def test_the_page_turns_dark_and_stays_readable(browser, cut):
    path, _ = cut
    browser.open(path)
    back = "return getComputedStyle(document.body).backgroundColor"
    light = browser.script(back)
    browser.emulate("dark")
    browser.wait("return document.documentElement.dataset.theme === 'dark'")
    assert browser.script(back) != light
    assert all(marks > 20 for marks, _ in browser.marks())
    browser.one("#theme").click()
    assert browser.script(back) == light
    browser.script("localStorage.removeItem('coterie-theme')")
    assert browser.messages() == []


def test_landmarks_one_first_heading_and_named_tables(browser, cut):
    path, _ = cut
    browser.open(path)
    assert [len(browser.all(tag)) for tag in ("header", "main", "footer", "h1")] == [1] * 4
    assert len([text for text in browser.texts("table caption") if text]) == 2


def test_nothing_is_wider_than_a_narrow_window(browser, cut):
    browser.driver.set_window_size(500, 900)
    try:
        browser.open(cut[0])
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert browser.script(wide) == 0
    finally:
        browser.driver.set_window_size(1280, 900)


def test_a_hostile_name_is_text(browser, tmp_path):
    found = large(1, 1, moves=1)
    found.scenario.ops[1].config["x"] = HOSTILE
    (tmp_path / "page.html").write_text("".join(page.render(found)), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    assert browser.script("return window.pwned === undefined")
    assert "window.pwned = 1" in browser.all("table")[1].text
    assert browser.messages() == []


def test_a_thousand_consumers_on_a_thousand_partitions_are_drawn_and_what_is_left_out_is_said(
    browser, tmp_path
):
    found = large(1_000, 1_000, moves=20)
    (tmp_path / "page.html").write_text("".join(page.render(found)), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    shown = len(page.page_data(found)["partitions"])
    said = browser.one("#left-out").text
    assert f"{1_000 - shown} partitions" in said
    assert "2 later ops" in said
    assert all(marks > 1_000 for marks, _ in browser.marks())
    assert browser.messages() == []
