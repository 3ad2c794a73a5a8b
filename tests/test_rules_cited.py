"""Each citation of a rule, in the code and in the rules themselves, leads to a heading."""

import re
from pathlib import Path

import pytest

from support.doc_pages import DOCS
from support.sources import code_files

RULES = DOCS / "rules"
PAGES = sorted(path.name for path in RULES.glob("*.md"))
# A page, and the anchors after it: "#rebalance, #sessions and #election", "#joingroup to #commits".
CITED = re.compile(r"docs/rules/([\w.-]+\.md)((?:(?:,| and| to)? ?#[\w-]+)*)")
LINK = re.compile(r"\]\(([\w./-]*)#([\w-]+)\)")


def anchor(heading):
    """The anchor of a heading, as GitHub and mkdocs make it of plain words."""
    return re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")


def anchors(page):
    """The anchors of a page; two equal headings would have two."""
    return set(map(anchor, re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)))


def wrong(text):
    """Citations in a text that lead nowhere, or to a page without saying to which heading."""
    found = []
    for page, cited in CITED.findall(text):
        names = re.findall(r"#([\w-]+)", cited)
        if page not in PAGES or not names:
            found.append(page)
        else:
            found += [f"{page}#{name}" for name in names if name not in anchors(RULES / page)]
    return found


def test_every_rule_that_the_code_cites_has_a_heading():
    own = Path(__file__)  # it has wrong ones
    paths = {*code_files(), *(own.parent / "transcripts").glob("*.txt")} - {own}
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    assert {path: wrong(text) for path, text in texts.items() if wrong(text)} == {}
    assert sum("docs/rules/" in text for text in texts.values()) > 20


@pytest.mark.parametrize("page", PAGES)
def test_every_link_within_the_rules_has_a_heading(page):
    text = (RULES / page).read_text(encoding="utf-8")
    missing = [
        f"{target}#{name}"
        for target, name in LINK.findall(text)
        if name not in anchors(RULES / (target or page))
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("docs/rules/offsets.md#expiration", []),
        ("docs/rules/offsets.md#expiry", ["offsets.md#expiry"]),
        (
            "docs/rules/coordinator.md#states, #session and #election.",
            ["coordinator.md#session"],
        ),
        ("docs/rules/coordinators.md#rebalance", ["coordinators.md"]),
        ("docs/rules/coordinator.md, section 7", ["coordinator.md"]),
    ],
)
def test_a_wrong_citation_is_seen(text, expected):
    assert wrong(text) == expected
