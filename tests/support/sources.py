"""The files of the repository."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ["src", "pycore", "spark_udfs", "tests", "benchmarks", "tools", ".ci"]
CODE = {".py", ".pyi", ".pyx", ".pxd", ".h", ".c", ".sh"}


def tracked():
    """Files of the repository without golden data; without git, those of its folders."""
    try:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
        names = listed.stdout.splitlines()
    except FileNotFoundError:
        names = []
    if not names:
        paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
        names = [path.relative_to(ROOT).as_posix() for path in paths if path.suffix != ".pyc"]
    return [ROOT / n for n in names if not n.startswith("tests/golden/") and (ROOT / n).is_file()]


def code_files():
    return [path for path in tracked() if path.suffix in CODE]


def statements(node):
    """Yield the statements in a node, at any depth, without the time that expressions take."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, block, ()):
            yield child
            yield from statements(child)
