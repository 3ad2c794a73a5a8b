"""What a user gets: the wheel that is built from the sdist, and the one built from the tree.

Each build compiles everything, so they run in CI (``CI`` set) or with ``--slow``.
"""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "coterie": ROOT / "pycore" / "coterie",
    "coterie_spark": ROOT / "spark_udfs/coterie_spark",
}
TYPED = {".py", ".pyi", ".typed"}


def build(*arguments):
    """Build with what this environment has; its programs (cython) come first on the PATH."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    command = [sys.executable, "-m", "build", "--no-isolation", *map(str, arguments), str(ROOT)]
    done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.fixture(scope="module")
def built(tmp_path_factory, request):
    """Build the sdist and from it the wheel, and one more wheel straight from the tree."""
    if not (os.environ.get("CI") or request.config.getoption("--slow")):
        pytest.skip("builds the package twice: runs in CI or with --slow")
    for name in ("build", "scikit_build_core", "cython_cmake", "Cython"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    home = tmp_path_factory.mktemp("package")
    build("--outdir", home / "sdist")
    build("--outdir", home / "tree", "--wheel", f"-Cbuild-dir={home / 'objects'}")
    return home


def names_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def wheel(built):
    (found,) = (built / "sdist").glob("*.whl")
    return found


def test_the_wheel_holds_both_packages_typed(wheel):
    names = names_of(wheel)
    for package, folder in PACKAGES.items():
        assert f"{package}/py.typed" in names
        files = [path for path in folder.rglob("*") if path.suffix in TYPED]
        assert {f"{package}/{path.relative_to(folder).as_posix()}" for path in files} <= names


def test_the_wheel_holds_an_extension_for_each_source(wheel):
    sources = {path.stem for path in (ROOT / "src/coterie/_core").glob("*.pyx")}
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert {f"coterie/_core/{name}{suffix}" for name in sources} <= names_of(wheel)


def test_the_wheel_holds_the_page_and_the_licence_of_its_charts(wheel):
    names = names_of(wheel)
    page = PACKAGES["coterie"] / "report" / "page"
    files = [path.relative_to(page).as_posix() for path in page.rglob("*") if path.is_file()]
    assert {f"coterie/report/page/{name}" for name in files} <= names
    assert [name for name in names if "/licenses/" in name and name.endswith("/NOTICE")]


def test_the_wheel_holds_nothing_else(wheel):
    own = {"coterie", "coterie_spark"}
    for name in names_of(wheel):
        top = name.split("/")[0]
        assert top in own or top.endswith(".dist-info"), name
        assert Path(name).suffix not in {".pyx", ".pxd", ".c", ".h", ".pyc"}, name


def test_the_wheel_from_the_sdist_is_the_wheel_from_the_tree(built, wheel):
    (other,) = (built / "tree").glob("*.whl")
    assert names_of(wheel) == names_of(other)


def test_the_sdist_holds_all_sources_and_no_golden_data(built):
    (sdist,) = (built / "sdist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for folder in ("src", "pycore", "spark_udfs"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".pyi", ".pyx", ".pxd", ".h", ".typed"}:
                assert path.relative_to(ROOT).as_posix() in names
    assert not [name for name in names if name.startswith("tests/golden/")]


def test_the_installed_wheel_runs(wheel, tmp_path):
    """In an environment of its own, which borrows the dependencies and not the packages."""
    venv.create(tmp_path / "env", with_pip=False)
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = tmp_path / "env" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "-q"]
    subprocess.run([*install, "--ignore-installed", "--no-index", wheel], check=True)
    code = (
        "import coterie, coterie_spark, importlib.metadata as m;"
        " assert coterie.__version__ == m.version('coterie'); print(coterie.__file__)"
    )
    told = subprocess.run(
        [python, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert Path(told.stdout.strip()).is_relative_to(tmp_path)
    told = subprocess.run(
        [tmp_path / "env" / "bin" / "coterie", "--version"], capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    assert re.search(r"\d+\.\d+", told.stdout)
