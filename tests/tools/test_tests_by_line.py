"""``tools/faults``: which tests a fault meets, from a recorded run of a small project."""

import importlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("coverage")
ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))
change, copies, places, rooms, selection, tests_by_line = (
    importlib.import_module(f"faults.{name}")
    for name in ("change", "copies", "places", "rooms", "selection", "tests_by_line")
)
SOURCE = """LIMIT = 3


def low(a, most=LIMIT):
    if a < most:
        return (
            a + 1
        )
    return most


def high(a):
    def inner(b=2):
        return a * b

    return inner()
"""
TESTS = """from some import high, low
import pytest

def test_low():
    assert low(1) == 2

@pytest.mark.parametrize("a", [5, 7])
def test_most(a):
    assert low(a) == 3
"""
MORE = """from some import high

def test_high():
    assert high(2) == 4
"""
LOW, MOST = "tests/test_a.py::test_low", {f"tests/test_a.py::test_most[{a}]" for a in (5, 7)}
HIGH = "tests/test_b.py::test_high"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A tree with two test files, and the folder of their recorded run."""
    tree = tmp_path_factory.mktemp("project")
    for name, text in {
        "some.py": SOURCE,
        "tests/test_a.py": TESTS,
        "tests/test_b.py": MORE,
    }.items():
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text(text)
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    library = tree / "libblocks.so"
    source = ROOT / "tools/faults/blocks.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    (tree / "recorded").mkdir()
    variables = {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tools"), str(tree)]),
        "FAULTS_RECORDING": str(tree / "recorded"),
        "FAULTS_BLOCKS": str(library),
        "FAULTS_SOURCES": str(tree),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "faults.recording", "tests"]
    command += ["-p", "no:cacheprovider", "--rootdir", tree]
    subprocess.run(command, cwd=tree, env=os.environ | variables, check=True)
    return tree


@pytest.fixture
def table(project, tmp_path):
    table = tests_by_line.TestsByLine(tmp_path / "tests.db")
    table.add(project / "recorded", project, project, ["tests/test_a.py", "tests/test_b.py"])
    yield table
    table.close()


def fault(text, was, becomes, function="f"):
    at = text.index(was)
    return change.Change("some.py", function, "sign", at, at + len(was), becomes)


@pytest.mark.parametrize(
    ("was", "tests"),
    [
        ("a < most", {LOW, *MOST}),
        ("a + 1", {LOW}),  # within a statement of three lines
        ("return most", MOST),
        ("a * b", {HIGH}),
        ("b=2", {HIGH}),  # the head of a function in a function
        ("most=LIMIT", {LOW, *MOST}),  # a default: what executes the function
        ("LIMIT = 3", {LOW, *MOST, HIGH}),  # at the import: what executes the file
    ],
)
def test_a_fault_meets_the_tests_that_execute_its_line(table, was, tests):
    assert table.executing(fault(SOURCE, was, "?"), SOURCE) == tests


def test_a_line_that_moved_is_looked_up_where_it_was(table):
    text = '"""Some."""\n\nimport re\n' + SOURCE.replace("    if a <", "    a = int(a)\n    if a <")
    for was, tests in (("return most", MOST), ("a * b", {HIGH}), ("int(a)", {LOW, *MOST})):
        assert table.executing(fault(text, was, "?"), text) == tests


def test_only_new_and_changed_test_files_are_to_be_recorded(table, project):
    files = ["tests/test_a.py", "tests/test_b.py"]
    assert table.unrecorded(files, project) == []
    (project / "tests/test_c.py").write_text("")
    (project / "tests/test_b.py").write_text(MORE + "\n")
    try:
        files.append("tests/test_c.py")
        assert table.unrecorded(files, project) == ["tests/test_b.py", "tests/test_c.py"]
    finally:
        (project / "tests/test_b.py").write_text(MORE)
        (project / "tests/test_c.py").unlink()


def test_a_test_file_that_is_recorded_again_replaces_its_tests(table, project):
    for _ in range(2):
        table.add(project / "recorded", project, project, ["tests/test_a.py", "tests/test_b.py"])
    assert set(table.seconds) == {LOW, *MOST, HIGH}
    assert table.executing(fault(SOURCE, "a * b", "?"), SOURCE) == {HIGH}


COMPILED = """static int sign(int a) {
    for (; a < 0; a++)
        *(volatile int *)&a = a;
    return *(volatile int *)&a;
}
int some(int a) { return sign(a); }
"""
RUN = """import ctypes, pickle, sys
blocks, module = (ctypes.CDLL(path) for path in sys.argv[1:3])
places = (ctypes.c_size_t * 100)()
ran = {}
for number in (-3, 3):
    blocks.blocks_taken(places, 100)
    module.some(number)
    count = blocks.blocks_taken(places, 100)
    ran[str(number)] = bytes(places)[: 8 * count]
count = blocks.blocks_taken(places, 100)
ran["none"] = bytes(places)[: 8 * count]
data = {"blocks": ran, "seconds": {}, "maps": open("/proc/self/maps").read()}
open(sys.argv[3], "wb").write(pickle.dumps(data))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_blocks_of_compiled_code_are_lines_of_its_source(project, tmp_path):
    header, module = tmp_path / "src/c/some.h", tmp_path / "_core/some.so"
    site = tmp_path / "site/coterie/_core/some.so"
    for path in (header, module, site):
        path.parent.mkdir(parents=True)
    header.write_text(COMPILED)
    (tmp_path / "some.c").write_text(f'#include "{header}"')
    compiled(tmp_path / "some.c", module, project)
    shutil.copy(module, site)
    command = [sys.executable, "-c", RUN, project / "libblocks.so", site, tmp_path / "blocks.1"]
    subprocess.run(command, check=True)
    lines = {
        test: (source, numbers)
        for test, source, numbers in places.executed(tmp_path, tmp_path, tmp_path)
    }
    assert {source for source, _ in lines.values()} == {"src/c/some.h"}
    assert 3 in lines["-3"][1]
    assert 3 not in lines["3"][1]
    assert 4 in lines["3"][1]
    assert "none" not in lines


def compiled(source, module, project):
    flags = shlex.split(copies.FAST_BUILD["CFLAGS"])
    command = ["cc", *flags, "-shared", "-fPIC", source, "-o", module, f"-I{ROOT}/src/c"]
    command += ["-Wl,--no-as-needed", project / "libblocks.so"]
    subprocess.run(command, check=True)


def test_a_function_with_clones_for_processors_can_be_loaded_in_a_copy(project, tmp_path):
    (tmp_path / "some.c").write_text('#include "expired.h"')
    compiled(tmp_path / "some.c", tmp_path / "some.so", project)
    load = f"import ctypes; ctypes.CDLL({str(tmp_path / 'some.so')!r}).coterie_expired"
    subprocess.run([sys.executable, "-c", load], check=True)


class Table:
    """Every line is executed by the tests of ``seconds``; all other test files are unrecorded."""

    def __init__(self, seconds):
        self.seconds = seconds

    def executing(self, change, text):
        return set(self.seconds)

    def unrecorded(self, files, root):
        recorded = {test.partition("::")[0] for test in self.seconds}
        return [file for file in files if file not in recorded]


FILE = "pycore/coterie/insight/questions/lag.py"
NEAR, FAR = "tests/insight/test_lag.py", "tests/wire/test_rows.py"


def selected(seconds):
    room = rooms.Room("insight", {FILE: (ROOT / FILE).read_text()})
    text = room.files[FILE]
    return selection.select(
        Table(seconds), room, change.Change(FILE, "f", "sign", 0, 1, text[0]), ROOT
    )


def test_near_and_short_tests_come_first_and_all_others_with_the_rest():
    tests = {f"{NEAR}::slow": 1.0, f"{NEAR}::fast": 0.1, f"{FAR}::fast": 0.1, f"{FAR}::hour": 3600}
    chosen = selected(tests)
    assert chosen.runs == [[f"{NEAR}::fast", f"{FAR}::fast", f"{NEAR}::slow"]]
    assert chosen.rest[0] == f"{FAR}::hour"
    unrecorded = set(rooms.all_tests(FILE, ROOT, [])) - {NEAR, FAR}
    assert unrecorded
    assert set(chosen.rest[1:]) == unrecorded | {NEAR}  # what its imports execute is in no record
    assert chosen.unrelated(f"{FAR}::fast")
    assert not chosen.unrelated(f"{NEAR}::fast")


def test_without_a_test_that_executes_the_line_the_tests_of_the_room_run():
    chosen = selected({})
    assert chosen.runs == [list(chosen.near[: selection.NEAREST])]
    assert set(chosen.rest) == set(rooms.all_tests(FILE, ROOT, []))
