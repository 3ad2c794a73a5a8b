"""The page itself: a template, a style sheet, scripts, the chart library and the data, in one file.

Nothing is fetched: the page forbids itself all network by its Content-Security-Policy, which also
names the one hash of each script that may run. Data are JSON in a block of their own, in which
nothing can end the block; scripts put text from the log in as text only.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import coterie
from coterie.insight.asking import find_question
from coterie.replay.engine import missing_module
from coterie.report.gather import OVERVIEW, Gathered
from coterie.report.sections import SECTIONS, Basis, Section
from coterie.times import format_duration, format_time

SCRIPTS = ("dom", "table", "data", "charts", "lines", "ownership", "overview", "group", "main")
KINDS = {"timestamp": "time", "int32": "number", "int64": "number", "double": "number"}
# What would end a block of data, or a line of a script, is written as its number.
ESCAPES = str.maketrans(
    {char: f"\\u{ord(char):04x}" for char in ("<", ">", "&", "\N{LINE SEPARATOR}", "\u2029")}
)
Row = dict[str, Any]


def render(whole: Gathered, title: str, subtitle: str, basis: Basis) -> Iterator[str]:
    """Yield the page in pieces.

    Raises
    ------
    CoterieError
        Jinja2 is missing: which extra brings it.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ModuleNotFoundError as error:
        raise missing_module(error) from error

    environment = Environment(
        loader=PackageLoader("coterie.report", "page"), autoescape=True, undefined=StrictUndefined
    )
    scripts = [asset("vendor/echarts.min.js"), *(asset(f"{name}.js") for name in SCRIPTS)]
    template = environment.get_template("report.html.j2")
    yield from template.generate(
        title=title,
        subtitle=subtitle,
        version=coterie.__version__,
        library=asset("vendor/VERSION").strip(),
        style=Markup(asset("report.css")),
        hashes=" ".join(map(source_hash, scripts)),
        scripts=[Markup(script) for script in scripts],
        data=Markup(embedded(page_data(whole, title, basis))),
    )


def asset(name: str) -> str:
    """Return a file of the page, of which nothing can end the element that it goes into."""
    text = (files("coterie.report") / "page" / name).read_text(encoding="utf-8")
    assert "</script" not in text
    assert "</style" not in text
    return text


def source_hash(script: str) -> str:
    """Return a script's name in a Content-Security-Policy."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def embedded(data: Row) -> str:
    """Return data as JSON that can stand in a script element."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(ESCAPES)


def page_data(whole: Gathered, title: str, basis: Basis) -> Row:
    """Return what the scripts draw."""
    pairs = list(whole.in_order())
    columns = [section.column for section in SECTIONS if section.column is not None]
    span_ms = max(whole.commits.span_ms, whole.rebalances.span_ms)
    shown = ("records", "faults", "partitions", "from_ms", "until_ms", "compacted")
    return {
        "title": title,
        "log": {name: getattr(whole, name) for name in shown},
        "columns": [*OVERVIEW, *(column.name for column in columns)],
        "groups": [row for row, _ in pairs],
        "details": [detail for _, detail in pairs],
        "topics": list(whole.topics),
        "counted": [
            {"name": column.name, "label": column.label, "kind": column.kind} for column in columns
        ],
        "commits": whole.commits.as_data(span_ms),
        "rebalances": whole.rebalances.as_data(span_ms),
        "sections": [section_data(section, basis) for section in SECTIONS],
    }


def section_data(section: Section, basis: Basis) -> Row:
    """Return what the page says of a section, whatever group it shows."""
    kinds = find_question(section.question).FIELDS
    return {
        "name": section.name,
        "title": section.title,
        "told": section.told.format(
            now=format_time(basis.now_ms).rstrip("Z").replace("T", " "),
            retention=format_duration(basis.retention_ms),
        ),
        "nothing": section.nothing,
        "columns": [
            {
                "label": label,
                "kind": "text" if name in section.texts else kind_of(name, kinds[name]),
            }
            for name, label in section.fields.items()
        ],
    }


def kind_of(name: str, kind: Any) -> str:
    """Return how the page shows a field."""
    return "duration" if name.endswith("_ms") else KINDS.get(kind, "text")
