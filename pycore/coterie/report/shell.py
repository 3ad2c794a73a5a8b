"""Make a page from a template, a style sheet, scripts, the chart library and data, in one file.

The page loads nothing: its Content-Security-Policy forbids all network access, and allows only
scripts with the listed hashes. Data are JSON in a block that no text in them can end. Scripts
insert data as text only.
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
from coterie.base.extras import missing_module
from coterie.base.printable import printable, printable_json

SHARED = ("dom", "table", "charts", "frame")  # scripts of every page, before its own
AT_ONCE = 50  # elements of a list of data
# Characters that would end a block of data are written as escapes.
ESCAPES = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&"})


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a page.

    Attributes
    ----------
    title, subtitle : str
        Its heading, and the line below.
    skip_to : str
        The target of the link that skips to the content, as text.
    basis : str
        How it was made: sentences of the footer.
    scripts : sequence of str
        The text of its own scripts, in order.
    data : mapping
        The data of the scripts.
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
        Jinja2 is missing; the message names the extra that installs it.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ModuleNotFoundError as error:
        raise missing_module(error) from error

    environment = Environment(
        loader=PackageLoader("coterie.report", "assets"), autoescape=True, undefined=StrictUndefined
    )
    shared = [shared_asset("vendor/echarts.min.js"), *(shared_asset(f"{n}.js") for n in SHARED)]
    scripts = [*shared, *page.scripts]
    yield from environment.get_template("page.html.j2").generate(
        title=printable(page.title),
        subtitle=printable(page.subtitle),
        skip_to=printable(page.skip_to),
        basis=printable(page.basis),
        version=coterie.__version__,
        library=shared_asset("vendor/VERSION").strip(),
        style=Markup(shared_asset("page.css")),
        hashes=" ".join(map(source_hash, scripts)),
        scripts=[Markup(script) for script in scripts],
        data=map(Markup, embedded(page.data)),
    )


def shared_asset(name: str) -> str:
    return asset("coterie.report", f"assets/{name}")


def asset(package: str, path: str) -> str:
    """Return a file of a package; its text cannot end the element that contains it."""
    text = files(package).joinpath(*path.split("/")).read_text(encoding="utf-8")
    assert "</script" not in text
    assert "</style" not in text
    return text


def source_hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def embedded(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield data as JSON for a script element, in pieces of lists."""
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
    return printable_json(compact_json(value).translate(ESCAPES))


def compact_json(value: Any) -> str:
    """Return JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
