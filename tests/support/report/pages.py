"""A page of ``coterie report``, read without a browser."""

import base64
import json
import shutil
import zlib
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory

from support.commandline import coterie_ok


class Elements(HTMLParser):
    """Every element with its attributes, and the text inside scripts."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.scripts = []
        self.inside = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.inside = len(self.scripts)
            self.scripts.append("")

    def handle_endtag(self, tag):
        if tag == "script":
            self.inside = None

    def handle_data(self, data):
        if self.inside is not None:
            self.scripts[self.inside] += data


class Page:
    """The data of a page: ``data`` as the scripts read it, groups by their ids."""

    def __init__(self, path):
        self.text = path.read_text(encoding="utf-8")
        self.html = Elements(self.text)
        self.data = json.loads(self.html.scripts[0])
        columns = self.data["columns"]
        self.overview = {
            row[0]: dict(zip(columns, row, strict=True)) for row in self.data["groups"]
        }

    def detail(self, group):
        """The details of a group, as the page unpacks them."""
        packed = self.data["details"][list(self.overview).index(group)]
        return json.loads(zlib.decompress(base64.b64decode(packed)))

    def section(self, group, name):
        """The rows of a section as dicts by heading."""
        (section,) = [s for s in self.data["sections"] if s["name"] == name]
        labels = [column["label"] for column in section["columns"]]
        rows = self.detail(group)["tables"].get(name, {"rows": []})["rows"]
        return [dict(zip(labels, row, strict=True)) for row in rows]


def report(folder, log, *options):
    """Make a page of a log and read it."""
    out = folder / "report.html"
    with TemporaryDirectory() as place:  # the folder may be the log, which no output lies in
        coterie_ok("report", log, "-o", Path(place) / out.name, *options)
        shutil.move(Path(place) / out.name, out)
    return Page(out)
