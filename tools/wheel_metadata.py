"""The package metadata that pyproject.toml cannot have: the README and the project's links.

The build calls this module (``[[tool.dynamic-metadata]]``). Both depend on the project's address,
which is not in the sources but known when a release is built. With an address, the README's
relative links and pictures lead there; without one, they become plain text. The address is that of
``COTERIE_URL`` (``https://HOST/OWNER/NAME``; empty: none), or else of git's remote ``origin`` if
that is on one of ``FORMS``; from an sdist, that of its ``PKG-INFO``.
"""

import email
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Host -> prefix of a page's path, prefix of a picture's path, path of the issues. Only git remotes
# on these hosts count: the name of another host may be private to a company.
FORMS = {
    "github.com": ("blob/main", "raw/main", "issues"),
    "gitlab.com": ("-/blob/main", "-/raw/main", "-/issues"),
    "codeberg.org": ("src/branch/main", "raw/branch/main", "issues"),
}
# The groups leave out a user's name and password, which a remote may have.
HTTPS = re.compile(r"https://(?:[^/]*@)?([\w.-]+(?::\d+)?)/([\w.~/-]+?)(?:\.git)?/?")
SSH = re.compile(r"git@([\w.-]+):([\w.~/-]+?)(?:\.git)?/?")
PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)]*)\)(\n\n)?")
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)]*)\)")


def dynamic_metadata(settings, project):
    """Return the fields of ``[project]`` that are made here."""
    host, path = address()
    text, urls = (ROOT / "README.md").read_text(encoding="utf-8"), {}
    if host:
        home = f"https://{host}/{path}"
        page, picture, issues = (f"{home}/{form}" for form in FORMS.get(host, FORMS["github.com"]))
        text = LINK.sub(rf"[\1]({page}/\2)", PICTURE.sub(rf"![\1]({picture}/\2)\3", text))
        urls = {
            "Homepage": home,
            "Source": home,
            "Documentation": f"{page}/README.md#what-there-is",
            "Changelog": f"{page}/CHANGELOG.md",
            "Issues": issues,
        }
    else:
        text = LINK.sub(r"\1 (`\2`)", PICTURE.sub("", text))
    return {"readme": {"content-type": "text/markdown", "text": text}, "urls": urls}


def address():
    """Return the project's host and the path there, or two empty texts."""
    made = ROOT / "PKG-INFO"
    if made.is_file():  # an sdist: its wheel must have the same metadata
        links = email.message_from_bytes(made.read_bytes()).get_all("Project-URL", [])
        home = [link.partition(", ")[2] for link in links if link.startswith("Homepage, ")]
        return parts(home[0]) if home else ("", "")
    url = os.environ.get("COTERIE_URL")
    if url is None:
        host, path = parts(origin())
        return (host, path) if host in FORMS else ("", "")
    if url and not any(parts(url)):
        raise ValueError("COTERIE_URL is not of the form https://HOST/OWNER/NAME")
    return parts(url)


def parts(url):
    """Return host and path of an address as git writes it."""
    match = HTTPS.fullmatch(url) or SSH.fullmatch(url)
    return (match[1].lower(), match[2]) if match else ("", "")


def origin():
    """Return the URL of git's remote ``origin``; empty if this folder is no clone."""
    if not (ROOT / ".git").exists():  # git would search the parent folders
        return ""
    command = ["git", "-C", str(ROOT), "config", "--get", "remote.origin.url"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # no git
        return ""
