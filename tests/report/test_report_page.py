"""The page as a file: whole, without any network, closed to what a log may hold; and bad input."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

import coterie as package
from coterie.report import shell
from support.commandline import coterie, coterie_ok, coterie_process, fails, folder_of
from support.golden_data import log
from support.report.pages import Elements, Page, report
from support.report.report_logs import HOSTILE, hostile_log

pytest.importorskip("jinja2")
VENDOR = Path(package.__file__).parent / "report" / "assets" / "vendor"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return report(tmp_path_factory.mktemp("page"), log("basic"))


def policy(page):
    (found,) = [
        attributes["content"]
        for tag, attributes in page.html.found
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    return found


def test_nothing_is_fetched(page):
    for _, attributes in page.html.found:
        for name in ("src", "href", "action", "srcset", "data"):
            value = attributes.get(name) or ""
            assert value.startswith(("#", "data:")) or value == "", attributes
    assert "default-src 'none'" in policy(page)
    assert "@import" not in page.text
    assert "url(" not in re.search(r"<style>(.*?)</style>", page.text, re.S)[1]


def test_only_the_scripts_of_the_page_may_run(page):
    told = re.search(r"script-src ([^;]*)", policy(page))[1].split()
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in page.html.scripts[1:]
    ]
    assert told == hashes
    assert not [name for _, all_ in page.html.found for name in all_ if name.startswith("on")]


def test_names_of_a_log_cannot_leave_the_data(tmp_path):
    page = report(hostile_log(tmp_path), tmp_path)
    assert len(page.html.scripts) == len(re.findall("<script", page.text.split("<body>")[1]))
    assert set(page.overview) == set(HOSTILE)
    assert set(page.data["topics"]) == set(HOSTILE)
    data = r'<script type="application/json" id="data">(.*?)</script>'
    assert "window.pwned" not in re.sub(data, "", page.text, flags=re.S)
    assert not set(re.search(data, page.text, re.S)[1]) & set("<>&\u2028\u2029")
    for name in HOSTILE:
        (line,) = page.detail(name)["offsets"]["rows"]
        assert (line[0], line[3]) == (name, name)


def test_the_title_is_text(tmp_path):
    page = report(tmp_path, log("compression-gzip"), "--title", "<b>&amp; </title><script>")
    assert "&lt;b&gt;&amp;amp; &lt;/title&gt;" in page.text
    assert len(Elements(page.text).scripts) == 13


def test_the_same_log_gives_the_same_page(tmp_path, page):
    again = report(tmp_path, log("basic"))
    assert again.text == page.text


def test_the_chart_library_is_the_version_that_is_named_and_has_its_licence(page):
    version = (VENDOR / "VERSION").read_text().strip()
    assert f'version="{version}"' in (VENDOR / "echarts.min.js").read_text(encoding="utf-8")
    assert "Apache License" in (VENDOR / "LICENSE").read_text(encoding="utf-8")
    assert "ECharts" in (VENDOR / "NOTICE").read_text(encoding="utf-8")
    for included, owner in (("d3", "Mike Bostock"), ("zrender", "Baidu")):
        assert owner in (VENDOR / f"LICENSE-{included}").read_text(encoding="utf-8")
    assert f"  echarts-{version}.tgz\n" in (VENDOR / "packages.sha256").read_text(encoding="utf-8")
    assert f"Apache ECharts {version}" in page.text


def test_the_file_is_written_whole_or_not_at_all(tmp_path):
    out = tmp_path / "page.html"
    out.write_text("mine")
    assert fails("report", log("basic"), "-o", out, says="is there already")
    assert fails("report", log("basic"), "-o", tmp_path / "no/page.html", says="does not exist")
    assert fails("report", log("basic"), "-o", tmp_path / "x", "--group", "no", says="group 'no'")
    assert out.read_text() == "mine"
    assert folder_of(tmp_path) == ["page.html"]


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        ((), 2, "--out"),
        (("-o", "x.html", "--retention", "soon"), 2, "--retention"),
        (("-o", "x.html", "--now", "soon"), 2, "is not a time"),
        (("-o", "x.html", "--group", "nobody"), 1, "no record of group 'nobody'"),
    ],
)
def test_wrong_usage_and_bad_input_are_told_in_one_line(options, status, says, tmp_path):
    fails("report", log("compression-gzip"), *options, status=status, says=says, cwd=tmp_path)
    assert folder_of(tmp_path) == []


def test_a_path_without_a_log_is_told_in_one_line(tmp_path):
    fails("report", tmp_path / "none", "-o", tmp_path / "x", says="no such file or folder")


def test_without_jinja_one_line_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "jinja2.py").write_text("raise ModuleNotFoundError('gone', name='jinja2')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    out = tmp_path / "x.html"
    asked = ("report", log("compression-gzip"), "-o", out)
    assert fails(*asked, says="pip install 'coterie[report]'", run=coterie_process)
    assert not out.exists()


def test_a_corrupt_log_and_one_without_times_give_a_page(tmp_path):
    told = coterie("report", log("corrupt/flipped-crc"), "-o", tmp_path / "a.html")
    assert told.returncode == 0
    assert "1 corrupt place was left out" in told.stderr
    assert Page(tmp_path / "a.html").data["log"]["faults"] == 1
    coterie_ok("report", log("old-formats"), "-o", tmp_path / "b.html")
    assert Page(tmp_path / "b.html").overview


def test_a_log_without_records_gives_a_page(tmp_path):
    (tmp_path / "__consumer_offsets-0").mkdir()
    (tmp_path / "__consumer_offsets-0" / f"{0:020}.log").write_bytes(b"")
    page = report(tmp_path, tmp_path)
    assert page.overview == {}
    assert page.data["log"]["from_ms"] is None


@pytest.mark.parametrize("count", range(6))
def test_data_that_are_written_a_little_at_a_time_are_whole(count, monkeypatch):
    monkeypatch.setattr(shell, "AT_ONCE", 2)
    data = {"first": "</script>", "rows": [[HOSTILE[0], n] for n in range(count)], "last": {}}
    text = "".join(shell.embedded(data))
    assert json.loads(text) == data
    assert "<" not in text
    assert json.loads("".join(shell.embedded({}))) == {}
