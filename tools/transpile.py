"""Write the C of all Cython modules: ``transpile.py BUILD_FOLDER [annotate] [linetrace]``.

Cython reads copies of the sources, in which the modules have the docstrings of their stubs
(``stub_docs.py``), and writes the C beside the copies. Only what changed is copied and written.
All modules share one process, or one per core: Cython takes longer to start than to translate a
small module.
"""

import os
import sys
from pathlib import Path

import setuptools  # has distutils, which Python 3.12 and later lack and cythonize needs
from Cython.Build import cythonize
from Cython.Compiler import Options

from stub_docs import filled

ROOT = Path(__file__).resolve().parents[1]
SOURCES, STUBS = ROOT / "src", ROOT / "pycore"
DIRECTIVES = {
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "auto_pickle": False,
    "autotestdict": False,
}
# What Cython would put into the C of every module: memory views, functions, calls by keyword. It
# takes a third of the C compiler's time to compile it once a module.
SHARED = "coterie._core._cyutility"
Options.warning_errors = True  # at the top: a process that is spawned runs these lines, not main


def write_if_changed(path, text):
    """Write a file, unless it has this text already: its time says that it changed."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def copy_sources(folder):
    """Bring the copies up to date; return the modules: name -> source."""
    modules, copies = {}, set()
    for source in sorted(SOURCES.rglob("*.p[yx][xd]")):
        name = source.relative_to(SOURCES)
        text, stub = source.read_text(encoding="utf-8"), STUBS / name.with_suffix(".pyi")
        if source.suffix == ".pyx":
            modules[".".join(name.with_suffix("").parts)] = folder / name
            if stub.is_file():
                text = filled(text, stub.read_text(encoding="utf-8"))
        write_if_changed(folder / name, text)
        copies.add(folder / name)
    for old in set((folder / "coterie").rglob("*.p[yx][xd]")) - copies:
        old.unlink()  # what imports it has to fail
    return modules


def main(folder, *options):
    """Write the C; all of it if the options are others than the last time."""
    folder = Path(folder)
    modules = copy_sources(folder)
    modules[SHARED] = folder / Path(*SHARED.split(".")).with_suffix(".c")
    extensions = [setuptools.Extension(name, [str(path)]) for name, path in modules.items()]
    settings = {
        "language_level": 3,
        "compiler_directives": DIRECTIVES | {"linetrace": "linetrace" in options},
        "shared_utility_qualified_name": SHARED,
        "annotate": "annotate" in options,
    }
    written_with = folder / "cython_settings"
    cythonize(
        extensions,
        include_path=[str(folder)],
        force=not written_with.is_file() or written_with.read_text() != repr(settings),
        nthreads=int(os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or os.cpu_count() or 1),
        quiet=True,
        **settings,
    )
    written_with.write_text(repr(settings))


if __name__ == "__main__":
    main(*sys.argv[1:])
