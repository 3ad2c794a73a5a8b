"""A page that is one file: its texts are escaped, its data come back whole, its scripts may run."""

import base64
import hashlib
import html
import json
import re

import pytest

from coterie.report import shell
from coterie.report.shell import Page, embedded, render

HOSTILE = "</script><b>ä日&\u2028\u202e\u2066\x85\x9b2J\x7f\u200b\U000e0041'"
DATA = re.compile(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', re.S)
SCRIPT = re.compile(r"<script>(.*?)</script>", re.S)


@pytest.mark.parametrize("count", [0, 1, 49, 50, 51, 100, 101])
@pytest.mark.parametrize("at_once", [1, 2, shell.AT_ONCE])
def test_data_come_back_whole_whatever_the_length_of_their_lists(monkeypatch, count, at_once):
    monkeypatch.setattr(shell, "AT_ONCE", at_once)
    data = {"rows": [{"n": n, HOSTILE: [n]} for n in range(count)], HOSTILE: 7, "none": None}
    text = "".join(embedded(data))
    assert json.loads(text) == data
    assert not set(text) & set("<>& ")
    assert text.isprintable()  # nothing turns its direction, or drives a terminal
    assert "日" in text  # which takes less as it is
    assert list(json.loads(text)) == list(data)


def test_a_page_has_its_texts_escaped_its_data_and_the_hash_of_each_script():
    pytest.importorskip("jinja2")
    texts = {name: f"{name} {HOSTILE}" for name in ("title", "subtitle", "skip_to", "basis")}
    page = Page(**texts, scripts=["one()", "two('ä')"], data={"rows": [HOSTILE] * 60})
    text = "".join(render(page))
    for name in texts:
        assert f"{name} &lt;/script&gt;&lt;b&gt;ä日&amp;" in text
    assert all(line.isprintable() for line in text.partition("<script>")[0].split("\n"))
    assert "<b>ä" not in text
    (data,) = DATA.findall(text)
    assert json.loads(data) == {"rows": [HOSTILE] * 60}
    scripts = SCRIPT.findall(text)
    assert scripts[-2:] == ["one()", "two('ä')"]
    assert len(scripts) == len(shell.SHARED) + 3  # and the chart library
    head = html.unescape(text.partition("<body")[0])
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in head
