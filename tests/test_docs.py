"""The examples of the documentation run and print what the pages show."""

import json
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import Phase

from coterie import run_trace
from coterie.base.operations import OPERATIONS
from coterie.live.client_config import read_client_config
from coterie.live.security import sasl_arguments
from support import golden_data
from support.commandline import coterie
from support.doc_pages import DOCS, blocks
from support.insight.broker_session import REQUESTS, SERVER, made_log
from support.insight.copies import history, write_copy

ENDS = Path(__file__).parent / "insight" / "ends"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what kafka-python imports
@pytest.mark.parametrize(
    ("page", "code"),
    [
        (page, code)
        for page in ("testing-clients.md", "testing-coordinator.md", "testing-histories.md")
        for code in blocks(page, "python")
        if "docker run" not in code  # tests/broker runs the one for a real broker
    ],
)
def test_an_example_of_a_page_on_tests_runs(page, code):
    real = {"from aiokafka": "aiokafka", "from kafka": "kafka"}  # elsewhere stand-ins will do
    real = {"Confluent": "confluent_kafka", **(real if page == "testing-clients.md" else {})}
    for mark, module in real.items():
        if mark in code:
            pytest.importorskip(module)
    # To shrink a history takes ten seconds.
    quick = code.replace("database=None", "database=None, phases=[Phase.generate]")
    assert (quick != code) == ("@given" in code)
    exec(compile(quick, page, "exec"), {"Phase": Phase})


def test_the_example_trace_ends_as_the_page_says():
    (trace,) = blocks("traces.md", "jsonl")
    lines = list(run_trace(trace.splitlines()))
    assert [(x["at"], x["op"]) for x in lines if x["event"] == "response"] == [
        (1000, "join_group"),
        (1500, "sync_group"),
    ]
    last = [x for x in lines if x["event"] == "transition"][-1]
    assert (last["at"], last["to"]) == (11_500, "Empty")


def test_a_what_if_of_the_example_trace_compares_it_with_itself(tmp_path):
    (trace,) = blocks("traces.md", "jsonl")
    path = tmp_path / "alone.trace.jsonl"
    path.write_text(trace, encoding="utf-8")
    ran = coterie("trace", "whatif", path, "--format", "json")
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["as_recorded"] == result["what_if"]
    assert result["as_recorded"]["evicted by session timeout"] == 1  # as the page says


def test_the_page_on_traces_names_every_operation_that_a_trace_or_a_caller_asks_for():
    text = (DOCS / "traces.md").read_text(encoding="utf-8")
    shown = [op for op, row in OPERATIONS.items() if row.traced or row.method]
    assert not [op for op in shown if f"`{op}`" not in text]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The paths in the pages of questions: ``copy``, ``broker`` and a broker's logs."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "copy").symlink_to(golden_data.log("basic"))
    for case in ("compacted", "compression-snappy", "kip848", "transactions"):
        (folder / case).symlink_to(golden_data.log(case))
    (folder / "fight").symlink_to(golden_data.GOLDEN / "incidents" / "static-fight")
    (folder / "crash").symlink_to(golden_data.GOLDEN / "incidents" / "crash-loop")
    (folder / "stalls").symlink_to(golden_data.incident("stalls") / "log")
    (folder / "deleted").symlink_to(golden_data.GOLDEN / "incidents" / "compaction")
    made_log(folder).rename(folder / "broker")
    for copy in ("broker-1", "broker-2", "broker-3"):
        (folder / copy).symlink_to(golden_data.incident("unclean-election") / copy)
    write_copy(folder / "alone", [*history(0, 0, 3), *history(3, 2, 2)], partition=3)
    for path in (REQUESTS, SERVER, ENDS / "ends.csv", ENDS / "ends.txt"):
        (folder / path.name).symlink_to(path)
    return folder


QUESTIONS = [
    *("audit.md", "compare.md", "expire.md", "explain.md", "growth.md", "lag.md", "metrics.md"),
    "undo.md",
]
CONSOLE = [(page, block) for page in QUESTIONS for block in blocks(page, "console")]


@pytest.mark.parametrize(("page", "block"), CONSOLE)
def test_a_page_on_a_question_shows_what_its_command_prints(page, block, folder):
    command, _, shown = block.removeprefix("$ coterie ").partition("\n")
    result = coterie(*shlex.split(command), cwd=folder)
    assert (result.stdout + result.stderr).strip("\n") == shown.strip("\n")
    if " -o " in command:
        assert [(folder / "back.csv").read_text()] == blocks(page, "csv")


@pytest.fixture
def first_hour(tmp_path):
    """The input of the page on the first hour: a copy of a log, and end offsets."""
    (tmp_path / "copy").symlink_to(golden_data.GOLDEN / "incidents" / "reset-while-empty" / "log")
    (ends,) = blocks("start.md", "text")
    (tmp_path / "ends.txt").write_text(ends, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("block", blocks("start.md", "console"))
def test_the_page_on_the_first_hour_shows_what_its_command_prints(block, first_hour):
    command, _, shown = block.removeprefix("$ coterie ").partition("\n")
    result = coterie(*shlex.split(command), cwd=first_hour)
    lines = (result.stdout + result.stderr).strip("\n").splitlines()
    assert [line.rstrip() for line in lines] == shown.splitlines()


def test_the_member_of_the_page_on_the_first_hour_gets_its_assignment():
    (code,) = blocks("start.md", "python")
    exec(compile(code, "start.md", "exec"), {})


def printed(command, folder):
    """A console block of a command that runs in ``folder``, with what it prints."""
    result = coterie(*shlex.split(command), cwd=folder)
    lines = [line.rstrip() for line in (result.stdout + result.stderr).strip("\n").splitlines()]
    return "\n".join(["```console", f"$ coterie {command}", *lines, "```"])


def test_the_page_on_what_went_wrong_shows_what_its_commands_print(tmp_path, request):
    """``pytest --rewrite`` writes the outputs anew, after a change that is meant to change them."""
    page = DOCS / "what-went-wrong.md"
    (tmp_path / "tests").symlink_to(Path(__file__).parent)
    (ends,) = blocks(page.name, "text")
    (tmp_path / "ends.txt").write_text(ends, encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    block = re.compile(r"^```console\n\$ coterie (.*)\n[\s\S]*?^```", re.M)
    now = block.sub(lambda match: printed(match[1], tmp_path), text)
    if request.config.getoption("--rewrite"):
        page.write_text(now, encoding="utf-8")
    else:
        assert now == text


ARCHITECTURE = (DOCS / "architecture.md").read_text(encoding="utf-8")
ROOMS = ("src", "pycore", "spark_udfs", "tests", "tools")
SOURCES = [path for room in ROOMS for path in (DOCS.parent / room).rglob("*.p*") if path.is_file()]
# Each file that the page names, and the names that stand after it.
NAMED = sorted(set(re.findall(r"`([\w/]+\.p\w+)`((?:, `\w[\w.]*`)*)", ARCHITECTURE)))
STOPS = re.findall(r"^\| \d+\w? \| `([^`]+\.p\w+)`", ARCHITECTURE, re.M)


def missing(text, names):
    """Those of the names that a source does not define."""
    known = r"^\s*(?:async )?(?:def|cdef|cpdef|class)\b[^\n(=]*\b{0}\b|^\s*{0}\b.*="
    return [name for name in names if not re.search(known.format(name.split(".")[-1]), text, re.M)]


@pytest.mark.parametrize(("file", "names"), NAMED)
def test_a_file_that_the_architecture_page_names_is_there_and_has_the_names_beside_it(file, names):
    found = [path for path in SOURCES if f"/{path.as_posix()}".endswith(f"/{file}")]
    assert found, file
    defined = [name for name in re.findall(r"`([\w.]+)`", names) if ".p" not in name]
    assert [] in [missing(path.read_text(encoding="utf-8"), defined) for path in found]


@pytest.mark.parametrize("file", STOPS)
def test_a_stop_of_the_architecture_page_begins_with_a_whole_path(file):
    assert (DOCS.parent / file).is_file()


def test_every_stop_of_the_architecture_page_is_looked_at():
    assert len(STOPS) == len(re.findall(r"^\| \d+\w? \|", ARCHITECTURE, re.M)) > 25
    assert {file for file, _ in NAMED} >= {*STOPS, "state/parallel_scan.py", "runtime.pyx"}


@pytest.mark.parametrize("text", blocks("providers.md", "properties"))
def test_the_properties_for_a_provider_are_taken_and_have_an_effect(tmp_path, text):
    (tmp_path / "client.properties").write_text(text, encoding="utf-8")
    config = read_client_config(tmp_path / "client.properties")
    assert {*config.unused} <= {"sasl.client.callback.handler.class"}  # of AWS, a class of Java
    if config.text("sasl.mechanism") in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert sasl_arguments(config)["sasl_plain_password"]
