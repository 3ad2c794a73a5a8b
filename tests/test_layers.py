"""Who may import whom. The architecture, as a test."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {  # room -> prefixes of this project it may touch
    "src/coterie/_core": {"coterie._core", "coterie.errors", "coterie.values"},
    "pycore/coterie": {"coterie"},
    "spark_udfs/coterie_spark": {"coterie", "coterie_spark"},
}
NEVER = {  # room -> outside modules barred from it
    "src/coterie/_core": {"time", "random", "socket", "asyncio", "threading", "pyspark", "pandas"},
    "pycore/coterie": {"pyspark", "pandas", "socket", "coterie_spark"},
    "spark_udfs/coterie_spark": {"socket"},
}
CYTHON_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+)?c?import\s+([\w.]+)", re.M)


def imports(path):
    text = path.read_text()
    if path.suffix in {".py", ".pyi"}:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.module
    else:
        yield from (module or name for module, name in CYTHON_IMPORT.findall(text))


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_room_imports_only_what_it_may(room):
    files = [p for p in (ROOT / room).rglob("*") if p.suffix in {".py", ".pyi", ".pyx", ".pxd"}]
    assert files
    for path in files:
        for name in imports(path):
            assert name.split(".")[0] not in NEVER[room], f"{path}: {name}"
            if name.startswith("coterie"):
                assert any(name.startswith(p) for p in MAY_IMPORT[room]), f"{path}: {name}"


def test_importing_the_spark_package_imports_no_spark():
    code = "import coterie_spark, sys; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
