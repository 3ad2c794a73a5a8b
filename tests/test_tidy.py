"""Small files and functions, short lines, no clock in the core, no paths of one machine."""

import ast
import re

import pytest

from support.sources import ROOT, code_files, statements, tracked

LINE, FUNCTION, FILE = 100, 70, 1200
CYTHON_DEF = re.compile(
    r"^(\s*)(?:async\s+def|def|cpdef|cdef)\b(?!\s+(?:class|extern|struct|enum))"
)
CLOCK = re.compile(
    r"\b(clock_gettime|gettimeofday|clock|time|rand|srand|random|arc4random|getrandom)\s*\("
)
PLACES = ["work", "root", "home", "Users", "tmp"]
MACHINE_PATH = re.compile(rf"(?<![\w.$~)}}])/({'|'.join(PLACES)})/[\w.]")


def python_functions(text):
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.end_lineno - node.lineno + 1


def cython_functions(text):
    """Name and lines of each function: from its `def` to the last line that is indented more."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        match = CYTHON_DEF.match(line)
        if not match:
            continue
        head_end, depth = start, 0
        while head_end < len(lines):  # the signature ends where its brackets close
            depth += sum(map(lines[head_end].count, "([")) - sum(map(lines[head_end].count, ")]"))
            if depth <= 0:
                break
            head_end += 1
        if not lines[head_end].split("#")[0].rstrip().endswith(":"):
            continue
        end = head_end
        for n in range(head_end + 1, len(lines)):
            if lines[n].strip():
                if len(lines[n]) - len(lines[n].lstrip()) <= len(match[1]):
                    break
                end = n
        yield line.strip(), end - start + 1


def test_lines_files_and_functions_are_small():
    too_big = []
    for path in code_files():
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        where = path.relative_to(ROOT)
        too_big += [f"{where}:{n}: {len(s)} wide" for n, s in enumerate(lines, 1) if len(s) > LINE]
        if len(lines) > FILE:
            too_big.append(f"{where}: {len(lines)} lines")
        functions = {".py": python_functions, ".pyx": cython_functions, ".pxd": cython_functions}
        for name, size in functions.get(path.suffix, lambda _: [])(text):
            if size > FUNCTION:
                too_big.append(f"{where}: {name}: {size} lines")
    assert not too_big, "\n".join(too_big)


def test_the_size_of_a_cython_function_is_counted_to_its_last_line():
    text = "cdef class A:\n    cdef int x\n\n    cdef int f(self,\n      int y) nogil:\n"
    text += "        return y\n\n    cdef int z = g(1)\n\ndef h():\n    pass\n"
    assert [size for _, size in cython_functions(text)] == [3, 2]


def test_no_clock_and_no_random_source_in_the_core():
    for path in code_files():
        if path.is_relative_to(ROOT / "src"):
            for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                assert not CLOCK.search(line), f"{path.relative_to(ROOT)}:{n}: {line.strip()}"


def test_no_path_of_one_machine_is_written_down():
    found = []
    for path in tracked():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        where = path.relative_to(ROOT)
        found += [f"{where}:{n}: {s}" for n, s in enumerate(lines, 1) if MACHINE_PATH.search(s)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("place", PLACES)
def test_a_path_of_one_machine_would_be_seen(place):
    assert MACHINE_PATH.search(f'open("/{place}/x")')
    assert not MACHINE_PATH.search(f"tests/{place}/x and $HOME/{place}/x")


def test_tests_that_share_what_takes_long_are_run_by_one_process(request):
    """Else each process of xdist starts Spark; no test fails of it."""
    if hasattr(request.config, "workerinput"):
        assert request.node.nodeid.endswith("@test_tidy")


def test_a_size_in_bytes_has_one_value_under_its_name():
    """Two modules that mean different sizes by one name are patched, or read, for one another."""
    sized, wrong = {}, []
    for path in code_files():
        folder = path.relative_to(ROOT).parts[0]
        if path.suffix != ".py" or folder not in ("pycore", "spark_udfs"):
            continue
        for name, value in re.findall(
            r"^([A-Z][A-Z_]*_BYTES\w*) *(?::.*?)?= *([^#\n]*)", path.read_text("utf-8"), re.M
        ):
            value = value.strip()
            if sized.setdefault(name, value) != value:
                wrong.append(f"{path.name}: {name} = {value}, elsewhere {sized[name]}")
    assert len(sized) > 10
    assert not wrong
