"""``tools/faults``: which faults it makes of a source, which it draws, and what it says of them."""

import ast
import importlib
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))
change, copies, draw, fields, in_python, in_tokens, judging, rooms, selection = (
    importlib.import_module(f"faults.{name}")
    for name in (
        *("change", "copies", "draw", "fields", "in_python", "in_tokens", "__main__", "rooms"),
        "selection",
    )
)
MODULES = {"py": in_python, "pyx": in_tokens, "h": in_tokens}
PYTHON = [  # operator, source, every line that it makes of the source's last one
    ("comparison", "x = a < b", {"x = a >= b"}),
    ("comparison", "x = (a) is not (b)", {"x = (a) is (b)"}),
    ("comparison", "x = not a", {"x = a"}),
    ("comparison", "def f(): return True", {"def f(): return False"}),
    ("bound", "x = 0 <= a < b", {"x = 0 < a < b", "x = 0 <= a <= b"}),
    ("off by one", "x = a[1:b]", {"x = a[2:b]", "x = a[0:b]", "x = a[1:b + 1]"}),
    ("off by one", "x = range(a)", {"x = range(a - 1)"}),
    ("off by one", "x = 0xFF", set()),
    ("order", "x = min(a, key=b)", {"x = max(a, key=b)"}),
    ("order", "x = sorted(a, key=b)[-1]", {"x = list(a)[-1]", "x = sorted(a, key=b)[0]"}),
    ("order", "a.b = 1; a.c()", {"a.c(); a.b = 1"}),
    ("sign", "x = a - -b", {"x = a + -b", "x = a - b"}),
    ("sign", "x += a", {"x -= a"}),
    ("dropped call", "a.b(c)", {"pass"}),
    ("dropped call", "x = made(a)", {"x = a"}),
    ("dropped call", "x = a.strip()", {"x = a"}),
    ("dropped term", "x = a and (b or c)", {
        "x = (b or c)", "x = a", "x = a and (b)", "x = a and (c)"}),
    ("wrong field", "class P:\n    a: int\n    b: int\n    c: str\nx = P().a", {"x = P().b"}),
    ("swapped arguments", "x = f(a, b, 1)", {"x = f(b, a, 1)"}),
    ("swapped arguments", "x = f(*a, b)", set()),
    ("swapped arguments", "x = max(a, b)", set()),
    ("wrong unit", "x = a if at_ms >= 0 else b", set()),
    ("wrong unit", "x = a if at_ms is None else b", set()),
    ("wrong unit", "x = a if at_ms > 0 else b", {"x = a if (at_ms // 1000) > 0 else b"}),
    ("off by one", "SIZE = 16 << 20", set()),
    ("off by one", "LIMIT = 1 << 31", {
        "LIMIT = 2 << 31", "LIMIT = 0 << 31", "LIMIT = 1 << 32", "LIMIT = 1 << 30"}),
    ("wrong default", "def f(a: int = 3, b=True): g()", {
        "def f(a: int = 6, b=True): g()", "def f(a: int = 3, b=False): g()"}),
    ("wrong default", "x = a.get(b, 0)", {"x = a.get(b, 1)"}),
    ("missing reset", "self.a = None", {"pass"}),
    ("missing reset", "a.clear()", {"pass"}),
    ("missing reset", "del a[b]", {"pass"}),
    ("wrong unit", "x = a.b_ms", {"x = (a.b_ms // 1000)"}),
    ("wrong unit", "x = a // 1000", {"x = a * 1000"}),
]  # fmt: skip
CYTHON = [
    ("comparison", "if <int>a >= b: return", {"if <int>a < b: return"}),
    ("comparison", "for x in a not in b: return", {"for x in a in b: return"}),
    ("comparison", "while a is None: return", {"while a is not None: return"}),
    ("bound", "x = <int64_t>a < b", {"x = <int64_t>a <= b"}),
    ("off by one", "cdef int a = 8", {"cdef int a = 9", "cdef int a = 7"}),
    ("order", "x = min(a, b)", {"x = max(a, b)"}),
    ("order", "a.b = 1\n    g(a)", {"g(a) a.b = 1"}),
    ("sign", "a.b += <int>-c", {"a.b -= <int>-c", "a.b += <int>c"}),
    ("dropped call", "a.b(c,\n        d)", {"pass"}),
    ("dropped term", "if a and (b or c): return", {
        "if (b or c): return", "if a: return", "if a and (c): return", "if a and (b): return"}),
    ("wrong field", "x = value.first", {"x = value.second"}),
    ("swapped arguments", "x = g(a, b[1, 2], 3)", {"x = g(b[1, 2], a, 3)"}),
    ("wrong default", "x = g(a, b=True)", {"x = g(a, b=False)"}),
    ("missing reset", "value.first = 0", {"pass"}),
    ("wrong unit", "x = g(a.b_ms)", {"x = g((a.b_ms // 1000))"}),
]  # fmt: skip
IN_CYTHON = """cdef struct Value:
    int first, second
    long third
cdef f(a, b, c, d, g, Value* value):
    cdef object x
    {}
"""
C = [
    ("comparison", "if (!(a < b)) return 3;", {
        "if (!(a >= b)) return 3;", "if ((a < b)) return 3;"}),
    ("bound", "while (a > b) a--;", {"while (a >= b) a--;"}),
    ("off by one", "a = 7u;", {"a = 8u;", "a = 6u;"}),
    ("sign", "a += (int64_t)-b;", {"a -= (int64_t)-b;", "a += (int64_t)b;"}),
    ("order", "v->first = 1; g(v, v);", {"g(v, v); v->first = 1;"}),
    ("dropped call", "g(v, v);", {";"}),
    ("dropped term", "if (a && (b || a)) return b;", {
        "if ((b || a)) return b;", "if (a) return b;",
        "if (a && (a)) return b;", "if (a && (b)) return b;"}),
    ("wrong field", "a = v->first;", {"a = v->second;"}),
    ("swapped arguments", "a = h(a, b);", {"a = h(b, a);"}),
    ("missing reset", "v->first = 0;", {";"}),
    ("wrong unit", "a = now_ms;", {"a = (now_ms / 1000);"}),
]  # fmt: skip
IN_C = """#include <stdint.h>
struct Value {{ int first, second; char third; }};
void g(struct Value *v, struct Value *w);
int64_t h(int64_t a, int64_t b);
int64_t f(int64_t a, int64_t b, int64_t now_ms, struct Value *v) {{
    {}
    return 3;
}}
"""


def made(suffix, text):
    known = fields.Fields.of([(f"some.{suffix}", text)])
    return MODULES[suffix].changes_of(f"some.{suffix}", text, known)


def lines_made(suffix, text, operator, line):
    """Make the faults of one operator, at one line; each differs there and nowhere else."""
    found, first = set(), text.index(line)
    for one in made(suffix, text):
        after = one.apply(text)
        assert after[: one.start] == text[: one.start]
        assert after.endswith(text[one.end :])
        if one.operator == operator and first <= one.start < first + len(line):
            found.add((one.becomes, after))
    return found


@pytest.mark.parametrize(("operator", "source", "becomes"), PYTHON)
def test_a_fault_of_python_is_the_operators_and_parses(operator, source, becomes):
    found = lines_made("py", source, operator, source.split("\n")[-1])
    assert {line for line, _ in found} == becomes
    for _, after in found:
        assert in_python.compiles(after)
        assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(source))


@pytest.mark.parametrize(("operator", "line", "becomes"), CYTHON)
def test_a_fault_of_cython_is_the_operators_and_parses(operator, line, becomes):
    parse = importlib.import_module("Cython.Compiler.TreeFragment").parse_from_strings
    found = lines_made("pyx", IN_CYTHON.format(line), operator, line)
    assert {line for line, _ in found} == becomes
    for _, after in found:
        parse("fault", after)


@pytest.mark.parametrize(("operator", "line", "becomes"), C)
def test_a_fault_of_c_is_the_operators_and_compiles(operator, line, becomes):
    found = lines_made("h", IN_C.format(line), operator, line)
    assert {line for line, _ in found} == becomes
    compiler = shutil.which("cc")
    for _, after in found if compiler else ():
        command = [compiler, "-fsyntax-only", "-w", "-x", "c", "-"]
        subprocess.run(command, input=after, text=True, check=True)


@pytest.mark.parametrize("operator", change.OPERATORS)
@pytest.mark.parametrize("made_of", [PYTHON, CYTHON, C], ids=["python", "cython", "c"])
def test_each_operator_is_tried_in_each_language(operator, made_of):
    if (operator, made_of) != ("wrong default", C):  # C has no defaults
        assert operator in {one for one, _, _ in made_of}


def test_texts_comments_types_errors_and_what_is_told_stay():
    text = '''"""1 < 2."""
from a import b
# 1 < 2
x: tuple[1, 2]
def f(a: int < 2) -> g(1, 2):
    """1 < 2."""
    logger.info("text", 1 - a, a)
    raise ValueError(f"{a < 1}", a - 1)
'''
    assert made("py", text) == []
    text = '''"""1 < 2."""
# 1 < 2
from a cimport b
cdef enum:
    A = 1
cdef struct S:
    int a[4]
cdef class C:
    cdef int f(self, int a, int b) except -1
    def __init__(self, int a):
        """1 < 2."""
        raise ValueError(a < 1)
'''
    assert made("pyx", text) == []
    text = "/* 1 < 2 */\n#define A(a) \\\n  (a < 1)\nenum { B = 1 };\nint f(int a, int b);\n"
    assert made("h", text) == []


def test_a_field_is_one_of_the_class_that_has_most_of_what_is_read():
    a, b = (
        "class A:\n    at: int\n    to: int\n",
        "class B:\n    at: int\n    by: int\n    key: str\n",
    )
    known = fields.Fields.of([("a.py", a + b)])
    assert known.beside("at", {"at", "to"}, {"A", "B"}) == ["to"]
    assert known.beside("at", {"at", "key"}, {"A", "B"}) == ["by"]
    assert known.beside("at", {"at"}, set()) == []


def room(name, lines):
    return rooms.Room(name, {f"{name}.py": "x = a < b - 1\nf(c, d)\n" * (lines // 2)})


def ids(some_rooms, count, seed):
    return [
        slot.changes[0].id
        for slot in draw.drawn(some_rooms, draw.fields_of(some_rooms), count, seed)
    ]


def test_a_seed_gives_the_same_faults_and_another_gives_others():
    some_rooms = [room("a", 40), room("b", 60)]
    assert ids(some_rooms, 10, 1) == ids([room("a", 40), room("b", 60)], 10, 1)
    assert ids(some_rooms, 10, 1) != ids(some_rooms, 10, 2)
    assert len(set(ids(some_rooms, 20, 1))) == 20


def test_a_room_gets_its_share_of_the_faults_up_or_down_to_one():
    some_rooms = [room(str(n), size) for n, size in enumerate((2, 10, 400, 96, 600, 40))]
    total, small = sum(one.size for one in some_rooms), 0
    for seed in range(50):
        found = draw.shares(some_rooms, 30, seed)
        assert sum(found) == 30
        for one, share in zip(some_rooms, found, strict=True):
            assert abs(share - 30 * one.size / total) < 1
        small += found[0]
    assert 0 < small < 10


def test_the_operators_take_turns():
    a_room = room("a", 100)
    found = draw.shuffled(draw.changes_of(a_room, draw.fields_of([a_room])), "seed")
    there = {one.operator for one in found}
    assert {one.operator for one in found[: len(there)]} == there


def test_an_equivalent_change_is_not_drawn(tmp_path, monkeypatch):
    some_rooms = [room("a", 2)]
    known = draw.changes_of(some_rooms[0], draw.fields_of(some_rooms))
    path = tmp_path / "equivalent.jsonl"
    path.write_text("\n".join(judging.as_entry(one) for one in known[1:]))
    monkeypatch.setattr(draw, "EQUIVALENT", path)
    (slot,) = draw.drawn(some_rooms, draw.fields_of(some_rooms), 1, 1)
    assert slot.changes == [known[0]]


@cache
def of_the_sources():
    some_rooms = rooms.rooms_of(ROOT)
    known = draw.fields_of(some_rooms)
    return {one.name: draw.changes_of(one, known) for one in some_rooms}


@pytest.mark.slow
def test_each_equivalent_change_is_one_of_the_sources():
    there = {one.key for changes in of_the_sources().values() for one in changes}
    assert not [key for key in draw.equivalents() if key not in there]


@pytest.mark.slow
def test_each_fault_of_the_sources_has_an_id_of_its_own():
    found = [one.id for changes in of_the_sources().values() for one in changes]
    assert len(found) == len(set(found))


@pytest.mark.slow
def test_each_room_has_faults_and_tests_and_each_test_is_there():
    assert set(rooms.TESTS) <= set(of_the_sources())
    assert all(of_the_sources().values())
    for name in of_the_sources():
        for pattern in rooms.TESTS.get(name, name).split():
            assert list((ROOT / "tests").glob(pattern)), (name, pattern)


def test_the_tests_that_know_a_source_come_first_and_slow_ones_last():
    found = rooms.tests_of("insight", "pycore/coterie/insight/questions/lag.py", ROOT)
    assert found[0] == "tests/insight/test_lag.py"
    assert found[0] in rooms.tests_of("cli", "pycore/coterie/cli/lag.py", ROOT)
    rest = rooms.all_tests("pycore/coterie/insight/questions/lag.py", ROOT, found)
    assert not set(found) & set(rest)
    late = [one for one in rest if one.startswith("tests/spark/")]
    assert set(late) <= set(rest[-2 * len(late) :])
    assert not [one for one in rest if one.startswith(("tests/clients", "tests/package"))]


def test_a_copy_is_put_back_as_it_was_with_its_times(tmp_path):
    clean, copy = tmp_path / "clean", tmp_path / "copy"
    (clean / "in").mkdir(parents=True)
    (clean / "in/a.py").write_text("a")
    (clean / "b.py").symlink_to("in/a.py")
    copies.mirror(clean, copy)
    before = copies._files(copy)
    (copy / "in/a.py").write_text("c")
    (copy / "b.py").unlink()
    (copy / "made.py").write_text("")
    copies.mirror(clean, copy)
    assert copies._files(copy) == before == copies._files(clean)
    assert (copy / "b.py").read_text() == "a"


@pytest.mark.parametrize(
    ("output", "status", "ran"),
    [
        ("1 passed", 0, ("", "")),
        ("FAILED tests/a.py::b[c - d] - assert 1 == [2]", 1, ("failed", "tests/a.py::b[c - d]")),
        ("ERROR tests/a.py - ImportError: x", 2, ("failed", "tests/a.py")),
        (
            'Timeout!\n  File "/x/b.py", line 3 in f\n  File "/x/tests/a.py", line 9 in test_b',
            1,
            ("hung", "tests/a.py::test_b"),
        ),
        ("Fatal Python error: Segmentation fault", -11, ("signal 11", "")),
        ("", 3, ("status 3", "")),
    ],
)
def test_what_caught_a_fault_is_named(output, status, ran):
    assert copies.how_ended(output, status) == copies.Ran(*ran)


FAILED = copies.Ran("failed", "tests/a.py::b")
HUNG = copies.Ran("hung", "tests/a.py::c")
PASSED = copies.Ran()


class FakeCopy:
    """Plants only what ``good`` names; runs of tests end as ``ends`` says, one after the other."""

    def __init__(self, good, ends, flaky=()):
        self.good, self.ends, self.flaky, self.dirty = good, ends, flaky, False

    def plant(self, changes):
        self.dirty = True
        return "" if {one.id for one in changes} <= self.good else "it does not compile"

    def restore(self):
        self.dirty = False

    def run(self, tests, without=""):
        assert self.dirty
        assert tests
        return self.ends.pop(0)

    def passes(self, test):
        assert not self.dirty
        return test not in self.flaky

    def sound(self, tests, workers):
        return [test for test in tests if self.passes(test)]


@pytest.fixture
def slot():
    log_room = rooms.Room("log", {"pycore/coterie/log/some.py": "x = a < b - 1\nf(c, d)\n"})
    (found,) = draw.drawn([log_room], draw.fields_of([log_room]), 1, 1)
    return found


def by_near_tests(*runs, near=("tests/a.py",)):
    return lambda *_: selection.Selection(runs or [["tests/a.py"]], ["tests/rest.py"], near)


def test_what_does_not_compile_is_replaced_by_the_next_draw(slot):
    outcome = judging.judged(FakeCopy({slot.changes[2].id}, [FAILED]), slot, by_near_tests())
    assert (outcome.change, outcome.skipped, outcome.ran) == (slot.changes[2], 2, FAILED)


def test_survivors_meet_the_rest_together_and_what_failed_alone(slot, capsys):
    runs = []

    class Recorded(FakeCopy):
        def run(self, tests, without=""):
            runs.append(tests)
            return super().run(tests)

        def failing(self, tests, workers):
            assert self.dirty
            runs.append(tests)
            return alone

    alone = ["tests/a.py::b", "tests/a.py::c", "tests/a.py::fails-anyway"]
    ends = [PASSED, FAILED, PASSED, PASSED, HUNG]
    copy = Recorded({one.id for one in slot.changes}, ends, flaky=alone[2:])
    outcomes = judging.worked([slot, slot, slot], [copy], by_near_tests())
    assert [one.ran for one in outcomes] == [PASSED, FAILED, HUNG]
    assert runs == [*[["tests/a.py"]] * 3, ["tests/rest.py"], alone[:2], alone[:2]]
    printed = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in printed] == [
        *("not yet", "caught", "not yet"),
        "2 faults meet 1 tests and test files together",
        *("SURVIVED", "caught"),
    ]


OTHER = copies.Ran("failed", "tests/page.py::b")
SEEDED = copies.Ran("failed", "tests/a.py::b[seed 7]")


@pytest.mark.parametrize(
    ("ends", "lucky"),
    [
        ([FAILED], False),  # a test of its room
        ([OTHER, PASSED, PASSED], True),
        ([OTHER, PASSED, FAILED], False),
        ([PASSED, OTHER, PASSED, PASSED], True),
        ([SEEDED, PASSED, PASSED], True),
        ([SEEDED, SEEDED], False),
    ],
)
def test_a_fault_is_caught_by_luck_if_one_unrelated_test_alone_detects_it(slot, ends, lucky):
    copy = FakeCopy({slot.changes[0].id}, ends)
    outcome = judging.judged(copy, slot, by_near_tests(["tests/a.py"], ["tests/page.py"]))
    assert outcome.lucky == lucky
    assert outcome.line().startswith("LUCK" if lucky else "caught")
    assert not copy.ends


def test_faults_are_planted_together_from_the_end_of_each_file(tmp_path, monkeypatch):
    text = "x = a < b - 1\ny = c < d\n"
    log_room = rooms.Room("log", {"some.py": text})
    changes = draw.changes_of(log_room, draw.fields_of([log_room]))
    first = next(one for one in changes if one.operator == "sign")
    second = next(one for one in changes if one.operator == "comparison" and one.start > 14)
    copy = copies.Copy(1)
    monkeypatch.setattr(copy, "tree", tmp_path)
    (tmp_path / "some.py").write_text(text)
    assert copy.plant([first, second]) == ""
    alone = {one: one.apply(text).splitlines() for one in (first, second)}
    assert (tmp_path / "some.py").read_text().splitlines() == [alone[first][0], alone[second][1]]


@pytest.fixture
def small_copy(tmp_path, monkeypatch):
    """A copy whose only tests are named after a list, as with a fault in it."""
    monkeypatch.setattr(copies, "HOME", tmp_path)
    copy = copies.Copy(1)
    copy.tree.mkdir(parents=True)
    monkeypatch.setattr(copy, "python", sys.executable)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # most of what a start takes
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist -p pytest_timeout -p _hypothesis_pytestplugin")
    (copy.tree / "test_a.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('name', ['a', 'changed'])\n"
        "def test_a(name):\n"
        "    assert name == 'a'\n"
    )
    return copy


def test_a_test_whose_name_the_fault_has_changed_runs_with_its_file(small_copy):
    failed = copies.Ran("failed", "test_a.py::test_a[changed]")
    assert small_copy.run(["test_a.py::test_a[a]"]) == copies.Ran()
    assert small_copy.run(["test_a.py::test_a[a]", "test_a.py::test_a[b]"]) == failed


@pytest.mark.slow
def test_a_test_that_is_there_only_with_a_fault_does_not_pass_without_it(small_copy):
    there, failing, absent = (f"test_a.py::test_a[{name}]" for name in ("a", "changed", "b"))
    names = [there, failing, absent]
    assert list(filter(small_copy.passes, names)) == [there]
    assert small_copy.sound(names, 1) == [there]
    assert small_copy.sound([], 1) == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("FAILED tests/a.py::b[c - d]@spark - assert 1", "tests/a.py::b[c - d]"),
        ("FAILED tests/a.py::b@spark", "tests/a.py::b"),
        ("ERROR tests/a.py::b[c@d] - x", "tests/a.py::b[c@d]"),
    ],
)
def test_a_test_is_named_without_the_group_that_it_ran_in(line, name):
    assert copies.FAILED.findall(line) == [name]


def test_a_test_that_fails_without_the_fault_shows_nothing(slot):
    good = {slot.changes[0].id}
    for ran in (FAILED, HUNG):
        assert judging.judged(FakeCopy(good, [ran], flaky={ran.test}), slot, by_near_tests()).unsure
        assert not judging.judged(FakeCopy(good, [ran]), slot, by_near_tests()).unsure


def test_the_report_counts_by_room_and_shows_what_survived(slot):
    one = slot.changes[0]
    ends = [judging.Outcome(slot, one, ran, 1.0) for ran in (FAILED, PASSED, HUNG)]
    text = judging.report(ends)
    assert "log                      2 / 3" in text
    assert "SURVIVED" in text
    assert f"{one.file}:{one.line(slot.room.files[one.file])}" in text
    assert "\n".join(one.diff(slot.room.files[one.file])) in text
    assert judging.as_entry(one) in text
