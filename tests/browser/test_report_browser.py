"""The page in a real browser: it loads, searches, sorts, opens groups, draws, turns dark."""

import re

import pytest

from coterie import messages
from coterie.base.times import format_time
from support.golden_data import log
from support.insight.lives import commit, life, member, written
from support.report.browser import LOCAL
from support.report.pages import report
from support.report.report_logs import HOSTILE, compacted, crash_loop, hostile_log

pytest.importorskip("jinja2")
GROUP = "grp-java-cooperative-sticky"
LINKS = "tbody th a"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("basic")
    page = report(folder, log("basic"))
    return folder / "report.html", page


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A log of 5,000 groups, each with two commits."""
    folder = tmp_path_factory.mktemp("many")
    place = folder / "__consumer_offsets-0"
    place.mkdir()
    batches = []
    for number in range(5_000):
        data = {"group": f"team-{number % 7}.app-{number}", "topic": f"topic-{number % 50}"}
        key = messages.encode_key({"version": 1, "data": data | {"partition": 0}})
        value = {"offset": number, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 1000}
        body = messages.encode_value(1, {"version": 3, "data": value})
        pairs = [(0, 1_000 + number, key, body), (1, 90_000 + number, key, body)]
        batches.append(messages.encode_batch(pairs, base_sequence=2 * number))
    (place / f"{0:020}.log").write_bytes(b"".join(batches))
    report(folder, folder)
    return folder / "report.html"


def test_each_page_says_how_fresh_it_is(browser, made):
    """The newest record, and its age by the clock of the browser, unless that is behind."""
    path, page = made
    at = page.data["log"]["until_ms"]
    newest = f"newest record {format_time(at).replace('T', ' ').rstrip('Z')} UTC"
    for group in ("", GROUP):
        browser.open(path, group)
        (shown,) = browser.texts("header .quiet")
        assert re.search(f"; {newest}(, .+ before this page was opened)?$", shown)
    ages = browser.script("return arguments[0].map((now) => freshness(...now))",
                          [[None, 9], [at, at + 90_000], [at, at - 1]])  # fmt: skip
    assert ages == ["", f"; {newest}, 1.5 min before this page was opened", f"; {newest}"]


STROKES = """
const charts = [...document.querySelectorAll(".chart")].map((one) => echarts.getInstanceByDom(one));
const { series, color } = charts.at(-1).getOption();
return series.filter(({ name }) => name).map(({ lineStyle, symbol }, index) =>
  JSON.stringify([color[index % color.length], lineStyle.type, symbol]));
"""


def test_no_two_of_forty_lines_look_the_same(browser, tmp_path):
    report(tmp_path, written(tmp_path / "log", commit(9000, {number: 1 for number in range(40)})))
    browser.open(tmp_path / "report.html", "g")
    strokes = browser.script(STROKES)
    assert len(strokes) == len(set(strokes)) == 40
    assert browser.messages() == []


def keys():
    return pytest.importorskip("selenium.webdriver").Keys


def test_the_overview_loads_without_a_message_and_without_network(browser, made):
    path, page = made
    browser.open(path)
    assert sorted(browser.texts(LINKS)) == sorted(
        group for group in page.overview if group.isprintable()
    )
    assert all(marks > 20 and ink > 3 for marks, ink in browser.marks())
    assert len(browser.marks()) == 2
    assert browser.messages() == []
    asked = browser.requests()
    assert path.as_uri() in asked
    assert not [url for url in asked if not url.startswith(LOCAL)]


def test_a_group_loads_with_marks_in_each_chart(browser, made):
    path, _ = made
    browser.open(path, GROUP)
    assert browser.shown() == GROUP
    assert browser.texts("h2") == [f"Group {GROUP}"]
    titles = browser.texts("figcaption h3")
    assert titles == ["Members and their partitions", "Commit rate", "Committed offsets"]
    assert all(marks > 20 and ink > 3 for marks, ink in browser.marks())
    assert browser.messages() == []
    assert not [url for url in browser.requests() if url.startswith("http")]


SPANS = """
return [...document.querySelectorAll(".chart")].map((one) => {
  const { series } = echarts.getInstanceByDom(one).getOption();
  const areas = series.flatMap(({ markArea }) => markArea ? markArea.data : []);
  return areas.map(([from, until]) => [from.xAxis, until.xAxis]);
});
"""
CUT = """
return [...document.querySelectorAll(".scroll")].filter((one) => one.scrollWidth > one.clientWidth)
  .map((one) => one.getAttribute("aria-label"));
"""


def test_a_page_begins_with_its_findings_in_words_that_lead_to_their_groups(browser, made):
    path, page = made
    browser.open(path)
    assert browser.texts("h2")[0] == "What looks wrong"
    shown = browser.texts(".findings li")
    rows = page.data["findings"]["rows"]
    assert len(shown) == len(rows) == 10
    for text, (group, row) in zip(shown, rows, strict=True):
        assert text.startswith(f"{page.data['severities'][row[2]]} {group}")
        assert row[5] in text
    (rest,) = browser.texts(".findings p")
    assert rest.startswith(f"{page.data['findings']['count'] - 10} more findings: ")
    browser.all(".findings li a")[0].click()
    browser.wait("return document.documentElement.dataset.shown === arguments[0]", rows[0][0])
    own = browser.texts(".findings li")
    assert rows[0][1][5] in own[0]
    assert len(own) == page.overview[rows[0][0]]["findings"]


def test_without_findings_a_page_says_since_when_that_holds(browser, tmp_path):
    report(tmp_path, compacted(tmp_path / "log"), "--group", "calm", "--group", "whole")
    browser.open(tmp_path / "report.html")
    (text,) = browser.texts("h2:first-of-type + p")
    assert text.startswith("The audit found nothing. That holds since ")


def test_time_that_compaction_took_is_drawn_as_unknown_and_other_time_is_not(
    browser, made, tmp_path
):
    page = report(tmp_path, log("compacted"))
    path = tmp_path / "report.html"
    browser.open(path)
    since = max(ms for _, ms in page.data["log"]["compacted"])
    areas = browser.script(SPANS)
    assert [[until for _, until in spans] for spans in areas] == [[since], [since]]
    assert all(start <= page.data["log"]["from_ms"] for ((start, _),) in areas)
    group = max(page.overview, key=lambda name: page.overview[name]["commits"])
    browser.open(path, group)
    own = page.detail(group)["head"]["trusted_from_ms"]
    assert [[until for _, until in spans] for spans in browser.script(SPANS)] == [[own]] * 3
    assert all("what is missing there is not known" in text
               for text in browser.texts("figcaption p")[:2])  # fmt: skip
    browser.open(made[0])
    assert browser.script(SPANS) == [[], []]


def test_no_column_is_cut_at_1400_pixels(browser, tmp_path):
    shape = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    try:
        for case in ("basic", "compacted", "kip848"):
            page = report(tmp_path, log(case))
            for group in ("", *one_of_each_kind(page)[:4]):
                browser.open(tmp_path / "report.html", group)
                assert browser.script(CUT) == []
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


# One after the other, each with a frame in which its charts are drawn; gives those with an alert.
OPEN_EACH = """
const [groups, done] = arguments, alerted = [];
const frame = () => new Promise(requestAnimationFrame);
(async () => {
  for (const group of groups) {
    location.hash = "group=" + encodeURIComponent(group);
    do await frame(); while (document.documentElement.dataset.shown !== group);
    if (document.querySelector("[role=alert]")) alerted.push(group);
  }
  await frame();
  done([groups.length, alerted]);
})();
"""


def every_group(page):
    return list(page.overview)


def one_of_each_kind(page):
    """A group of each state and type with the same tables, and with or without members."""
    kinds = {}
    for group, row in page.overview.items():
        detail = page.detail(group)
        kind = row["state"], row["type"], *detail["tables"], bool(detail["timeline"]["bars"])
        kinds.setdefault(kind, group)
    return list(kinds.values())


@pytest.mark.parametrize(
    "chosen", [one_of_each_kind, pytest.param(every_group, marks=pytest.mark.slow)]
)
def test_groups_of_every_kind_of_log_open_without_a_message(browser, tmp_path, chosen):
    for case in ("kip848", "transactions", "connect", "old-formats", "compacted"):
        page = report(tmp_path, log(case))
        browser.open(tmp_path / "report.html")
        groups = chosen(page)
        assert browser.script_that_ends(OPEN_EACH, groups) == [len(groups), []]
        assert browser.messages() == []


def test_search_narrows_by_group_and_by_topic(browser, made):
    path, page = made
    browser.open(path)
    browser.one("#search").send_keys("MIX")
    expected = sorted(group for group in page.overview if "mix" in group)
    assert sorted(browser.texts(LINKS)) == expected
    assert f"{len(expected)} of " in browser.one("#found").text
    browser.one("#search").clear()
    browser.one("#search").send_keys("audit")
    number = page.data["topics"].index("audit")
    by_topic = {group for group, row in page.overview.items() if number in row["topics"]}
    assert set(browser.texts(LINKS)) == by_topic
    assert 0 < len(by_topic) < len(page.overview)
    browser.one("#search").send_keys("no such")
    assert browser.texts(LINKS) == []


def test_the_state_narrows_too(browser, made):
    path, page = made
    browser.open(path)
    browser.one("#state option:last-child").click()
    state = browser.one("#state option:last-child").text
    expected = {group for group, row in page.overview.items() if row["state"] == state}
    assert set(browser.texts(LINKS)) == expected


def test_headings_sort_both_ways_and_say_so(browser, made):
    path, page = made
    browser.open(path)
    (head,) = [one for one in browser.all("thead th") if one.text.startswith("Offsets committed")]
    button = head.find_element("css selector", "button")
    counts = sorted((row["commits"] for row in page.overview.values()), reverse=True)
    place = browser.texts("thead th").index("Offsets committed") + 1
    column = f"tbody tr > :nth-child({place})"
    for order, expected in (("descending", counts), ("ascending", counts[::-1])):
        button.send_keys(keys().ENTER)
        assert head.get_attribute("aria-sort") == order
        told = [int(text.replace(",", "")) for text in browser.texts(column)]
        assert told == expected
    assert len(browser.all("th[aria-sort]")) == 1


def test_the_keyboard_alone_finds_and_opens_a_group_and_comes_back(browser, made):
    path, _ = made
    browser.open(path)
    focused = "return document.activeElement.matches(arguments[0])"
    for _ in range(40):
        browser.press(keys().TAB)
        if browser.script(focused, "#search"):
            break
    browser.press(GROUP)
    for _ in range(40):
        browser.press(keys().TAB)
        if browser.script(focused, LINKS):
            break
    assert browser.script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press(keys().ENTER)
    browser.wait("return document.documentElement.dataset.shown === arguments[0]", GROUP)
    assert browser.script(focused, "h2")  # what a screen reader says next
    assert GROUP in browser.driver.title
    browser.press(keys().TAB)
    browser.driver.back()
    browser.wait("return document.documentElement.dataset.shown === ''")
    assert browser.one("#search").get_attribute("value") == GROUP


def test_each_chart_has_its_numbers_as_a_table(browser, made):
    path, page = made
    browser.open(path, GROUP)
    timeline = page.detail(GROUP)["timeline"]
    figure = browser.all("figure")[0]
    figure.find_element("css selector", "summary").send_keys(keys().ENTER)
    browser.wait("return document.querySelector('figure table') !== null")
    assert len(figure.find_elements("css selector", "tbody tr")) == len(timeline["bars"])
    for chart in browser.all(".chart"):
        assert chart.get_attribute("role") == "img"
        assert len(chart.get_attribute("aria-label")) > 30


def test_the_page_has_landmarks_one_first_heading_and_named_tables(browser, made):
    path, _ = made
    for group in (None, GROUP):
        browser.open(path, group)
        assert [len(browser.all(tag)) for tag in ("header", "main", "footer", "h1")] == [1] * 4
        tables = len(browser.all("table"))
        assert len([text for text in browser.texts("table caption") if text]) == tables
        assert len(browser.all("tbody tr")) == len(browser.all("tbody th[scope=row]")) or group
        unnamed = (
            "return [...document.querySelectorAll('button, input, select, a')].filter((one) =>"
        )
        unnamed += " !one.textContent.trim() && !(one.labels && one.labels.length)).length"
        assert browser.script(unnamed) == 0


def test_one_partition_of_the_offsets_can_be_looked_at(browser, made):
    path, page = made
    browser.open(path, GROUP)
    lines = page.detail(GROUP)["lines"]["lines"]
    options = browser.texts("#partition option")
    assert len(options) == 1 + len(lines) + len({line["topic"] for line in lines})
    line = lines[-1]
    chosen = f"{line['topic']}-{line['partition']}"
    browser.all("#partition option")[options.index(chosen)].click()
    told = browser.texts("figure:last-of-type figcaption p")
    assert told[0].startswith(f"1 partition, {line['commits']} commit")


AXES = """
return [...document.querySelectorAll(".chart")].map((one) => {
  const chart = echarts.getInstanceByDom(one), [from, to] = arguments;
  return [from, to].map((ms) => Math.round(chart.convertToPixel({ xAxisIndex: 0 }, ms)));
});
"""


def test_one_time_stands_at_one_place_in_all_charts_of_a_group(browser, made):
    path, page = made
    browser.open(path, GROUP)
    places = browser.script(AXES, *page.detail(GROUP)["extent"])
    assert len(places) == 3
    assert places[0] == places[1] == places[2]
    assert places[0][1] - places[0][0] > 500


def test_an_unknown_group_is_said_and_leads_back(browser, made):
    path, _ = made
    browser.open(path, "no such <b>group</b>")
    assert "no such <b>group</b>" in browser.one("[role=alert]").text
    assert browser.messages() == []
    browser.one("main a").click()
    browser.wait("return document.documentElement.dataset.shown === ''")


def background(browser):
    return browser.script("return getComputedStyle(document.body).backgroundColor")


def test_it_is_dark_where_the_system_is_and_where_the_button_says_so(browser, made):
    path, _ = made
    browser.emulate("dark")
    browser.open(path, GROUP)
    dark = background(browser)
    button = browser.one("#theme")
    assert button.get_attribute("aria-pressed") == "true"
    browser.emulate("light")
    browser.wait("return document.documentElement.dataset.theme === 'light'")
    light = background(browser)
    assert sum(map(int, light[4:-1].split(","))) > 600 > 200 > sum(map(int, dark[4:-1].split(",")))
    button.send_keys(keys().ENTER)
    assert background(browser) == dark
    assert all(ink > 3 for _, ink in browser.marks())
    button.send_keys(keys().ENTER)
    browser.script("localStorage.clear()")


def test_what_a_log_holds_is_text_and_nothing_else(browser, tmp_path):
    report(hostile_log(tmp_path), tmp_path)
    browser.open(tmp_path / "report.html")
    assert len(browser.texts(LINKS)) == len(HOSTILE)
    for name in HOSTILE:
        browser.open(tmp_path / "report.html", name)
        assert browser.shown() == name
        assert not browser.all("main img")
        for summary in browser.all("summary"):
            summary.click()
        assert browser.script("return window.pwned === undefined")
        assert browser.messages() == []
    assert "\\u202eevil\\u0000" in browser.texts("h2")[0]


def test_tooltips_are_text_too(browser, tmp_path):
    report(hostile_log(tmp_path), tmp_path)
    for name in HOSTILE[::3]:
        browser.open(tmp_path / "report.html", name)
        code = "echarts.getInstanceByDom(arguments[0]).dispatchAction({type: 'showTip', "
        code += "seriesIndex: 0, dataIndex: 1})"
        browser.script(code, browser.all(".chart")[0])
        assert browser.script("return window.pwned === undefined && !document.images.length")


def test_five_thousand_groups_are_drawn_as_they_are_wanted(browser, many):
    browser.open(many)
    assert len(browser.all(LINKS)) == 100
    assert browser.one("#found").text == "5,000 of 5,000 groups"
    browser.one("#search").send_keys("app-4321")
    assert browser.texts(LINKS) == ["team-2.app-4321"]
    browser.one(LINKS).click()
    browser.wait("return document.documentElement.dataset.shown === 'team-2.app-4321'")
    assert "4,321" in browser.texts("main table:last-of-type tbody td")
    browser.driver.back()
    browser.wait("return document.documentElement.dataset.shown === ''")
    browser.one("#search").clear()
    browser.one("#search").send_keys("-")
    assert len(browser.all(LINKS)) == 100
    browser.all(".more button")[-1].click()
    assert len(browser.all(LINKS)) == 5_000
    assert browser.messages() == []


def test_what_was_compacted_stands_above_all_with_the_time_since_which_it_is_whole(
    browser, tmp_path
):
    report(tmp_path, compacted(tmp_path / "log"))
    browser.open(tmp_path / "report.html")
    told = "Compacted. __consumer_offsets-1 is whole since 1970-01-01 00:00:05.000 UTC."
    assert browser.texts("[role=note]")[0].startswith(told)
    browser.open(tmp_path / "report.html", "g")
    assert browser.texts("[role=note]")[0].startswith(told)
    browser.open(tmp_path / "report.html", "calm")
    since = "That holds since 1970-01-01 00:00:05.000 UTC: the log was compacted before."
    assert f"The audit found nothing. {since}" in browser.texts("main p")
    browser.open(tmp_path / "report.html", "whole")  # its partition is whole
    assert browser.all("[role=note]") == []
    assert browser.messages() == []


def test_a_static_member_has_one_row_in_the_chart_with_each_of_its_member_ids(browser, tmp_path):
    lives = [
        life(1000 * at, 1, member(f"i-{at}", groupInstanceId="i"), member("d")) for at in range(4)
    ]
    report(tmp_path, written(tmp_path / "log", *lives, commit(9000, {0: 1})))
    browser.open(tmp_path / "report.html")
    figure = browser.all("figure")[0]
    assert figure.find_element("css selector", "figcaption p").text.startswith("2 members in ")
    figure.find_element("css selector", "summary").send_keys(keys().ENTER)
    browser.wait("return document.querySelector('figure table') !== null")
    rows = [row.text.split() for row in figure.find_elements("css selector", "tbody tr")]
    assert {row[1] for row in rows if row[0] == "i"} == {"i-0", "i-1", "i-2", "i-3"}
    assert all(marks > 5 for marks, _ in browser.marks())
    assert browser.messages() == []


def test_the_overview_shows_who_flaps_and_a_groups_page_bounds_and_resets(browser, tmp_path):
    report(tmp_path, crash_loop(tmp_path / "log"))
    browser.open(tmp_path / "report.html")
    place = browser.texts("thead th").index("Flapping clients") + 1
    flapping = browser.texts(f"tbody tr > :nth-child({place})")
    assert dict(zip(browser.texts(LINKS), flapping, strict=True)) == {"g": "1", "calm": "\u2013"}
    browser.open(tmp_path / "report.html", "calm")
    heads = browser.texts("table thead tr:first-child th")
    assert "No assignment" in heads
    assert "< 1 ms" not in browser.texts("td")
    assert "< 0.001 s" in browser.texts("td")  # two records that are neighbours
    assert browser.messages() == []


def test_nothing_is_wider_than_a_narrow_window(browser, made):
    path, _ = made
    browser.driver.set_window_size(500, 900)
    try:
        for group in (None, GROUP):
            browser.open(path, group)
            wide = (
                "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert browser.script(wide) == 0
    finally:
        browser.driver.set_window_size(1280, 900)
