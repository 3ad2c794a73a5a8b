"""What a package index shows and pyproject.toml cannot say: the README, and the project's links.

The build asks for both (``[[tool.dynamic-metadata]]``). They depend on the project's address, which
is known where a release is built and not in the sources. With an address, the README's relative
links and pictures lead there; without one they would lead nowhere, and become plain text.
"""

import email
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
# A host -> what comes before a page's path, before a picture's, and where its issues are. A git
# remote is taken of these hosts only: another's name may be one that only its company knows.
FORMS = {
    "github.com": ("blob/main", "raw/main", "issues"),
    "gitlab.com": ("-/blob/main", "-/raw/main", "-/issues"),
    "codeberg.org": ("src/branch/main", "raw/branch/main", "issues"),
}
# A user's name and password, which a remote may have, stay outside the groups.
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
    if made.is_file():  # an sdist: what is built of it has to say what its own metadata say
        links = email.message_from_bytes(made.read_bytes()).get_all("Project-URL", [])
        home = [link.partition(", ")[2] for link in links if link.startswith("Homepage, ")]
        return parts(home[0]) if home else ("", "")
    told = os.environ.get("COTERIE_URL")
    if told is None:
        host, path = parts(origin())
        return (host, path) if host in FORMS else ("", "")
    if told and not any(parts(told)):
        raise ValueError("COTERIE_URL is not of the form https://HOST/OWNER/NAME")
    return parts(told)


def parts(url):
    """Return host and path of an address as git writes it."""
    found = HTTPS.fullmatch(url) or SSH.fullmatch(url)
    return (found[1].lower(), found[2]) if found else ("", "")


def origin():
    """Return the address of git's remote ``origin``; nothing where this folder is no clone."""
    if not (ROOT / ".git").exists():  # git would look in the folders above
        return ""
    ask = ["git", "-C", str(ROOT), "config", "--get", "remote.origin.url"]
    try:
        return subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # no git
        return ""
