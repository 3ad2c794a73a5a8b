"""A page: a template, a style sheet, scripts, the chart library and the data, in one file.

Nothing is fetched: the page forbids itself all network by its Content-Security-Policy, which also
names the one hash of each script that may run. Data are JSON in a block of their own, in which
nothing can end the block; scripts put what comes from the data in as text only.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import coterie
from coterie.extras import missing_module

SHARED = ("dom", "table", "charts", "frame")  # scripts of every page, before its own
AT_ONCE = 50  # elements of a list of data
# What would end a block of data, or a line of a script, is written as its number.
ESCAPES = str.maketrans(
    {char: f"\\u{ord(char):04x}" for char in ("<", ">", "&", "\N{LINE SEPARATOR}", "\u2029")}
)


@dataclass(frozen=True, slots=True)
class Page:
    """What a page is about.

    Attributes
    ----------
    title, subtitle : str
        Its heading, and the line below.
    skip_to : str
        What the first link of the page skips to.
    basis : str
        From what it was made: sentences of the footer.
    scripts : sequence of str
        Its own scripts, in order: texts.
    data : mapping
        What they draw.
    """

    title: str
    subtitle: str
    skip_to: str
    basis: str
    scripts: Sequence[str]
    data: Mapping[str, Any]


def render(page: Page) -> Iterator[str]:
    """Yield a page in pieces.

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
        loader=PackageLoader("coterie.pages", "assets"), autoescape=True, undefined=StrictUndefined
    )
    shared = [shared_asset("vendor/echarts.min.js"), *(shared_asset(f"{n}.js") for n in SHARED)]
    scripts = [*shared, *page.scripts]
    yield from environment.get_template("page.html.j2").generate(
        title=page.title,
        subtitle=page.subtitle,
        skip_to=page.skip_to,
        basis=page.basis,
        version=coterie.__version__,
        library=shared_asset("vendor/VERSION").strip(),
        style=Markup(shared_asset("page.css")),
        hashes=" ".join(map(source_hash, scripts)),
        scripts=[Markup(script) for script in scripts],
        data=map(Markup, embedded(page.data)),
    )


def shared_asset(name: str) -> str:
    """Return a file that every page has."""
    return asset("coterie.pages", f"assets/{name}")


def asset(package: str, path: str) -> str:
    """Return a file of a package, of which nothing can end the element that it goes into."""
    text = files(package).joinpath(*path.split("/")).read_text(encoding="utf-8")
    assert "</script" not in text
    assert "</style" not in text
    return text


def source_hash(script: str) -> str:
    """Return a script's name in a Content-Security-Policy."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def embedded(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield data as JSON that can stand in a script element, a little of each list at a time."""
    yield "{"
    for number, (name, value) in enumerate(data.items()):
        yield f"{',' if number else ''}{as_json(name)}:"
        if isinstance(value, list):
            yield "["
            for at in range(0, len(value), AT_ONCE):
                yield ("," if at else "") + as_json(value[at : at + AT_ONCE])[1:-1]
            yield "]"
        else:
            yield as_json(value)
    yield "}"


def as_json(value: Any) -> str:
    """Return JSON in which nothing can end a script element."""
    return compact_json(value).translate(ESCAPES)


def compact_json(value: Any) -> str:
    """Return JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
