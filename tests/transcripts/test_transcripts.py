"""Conversations with coterie as text: each command of a transcript has the output below it.

After a change that is meant to change outputs, ``pytest --rewrite tests/transcripts`` writes them
anew. Read the difference before you commit it: each output follows from the rule that the comment
above it names.
"""

import re
from pathlib import Path

import pytest

from support.transcripts import script
from support.transcripts.commands import Commands
from support.transcripts.connections import Connections
from support.transcripts.coordinator import Coordinator

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
SESSIONS = {"coordinator": Coordinator, "server": Connections, "folder": Commands}
RULE = re.compile(r"docs/(?:rules/)?[\w.-]+\.md#[\w-]+")


def check(path, folder, *, rewrite):
    """Run a transcript; write its outputs, or hold that they are those of the file."""
    blocks = script.read(path.read_text(encoding="utf-8"))
    outputs = script.play(blocks, SESSIONS, folder)
    if rewrite:
        path.write_text(script.written(blocks, outputs), encoding="utf-8")
        return
    for block, output in zip(blocks, outputs, strict=False):
        assert output == block.output, f"{path.name}:{block.line}: {block.text[-1]}"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_has_the_outputs_of_its_commands(path, tmp_path, request):
    check(path, tmp_path, rewrite=request.config.getoption("--rewrite"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_names_the_rules_that_its_outputs_follow(path):
    comments = [line for line in path.read_text(encoding="utf-8").splitlines() if line[:1] == "#"]
    assert RULE.search("\n".join(comments))


MADE = """\
# A heartbeat of a group that does not exist: docs/rules/coordinator.md#heartbeat, row 2.
coordinator
----

heartbeat group_id=g member_id=m generation_id=1
----
0 answer 1 heartbeat {error}

# Nothing is due.
advance to=5
----
"""


def test_a_wrong_output_fails_with_its_line_and_rewriting_it_keeps_the_comments(tmp_path):
    path = tmp_path / "made.txt"
    path.write_text(MADE.format(error="NONE"))
    with pytest.raises(AssertionError, match=r"made.txt:5: heartbeat group_id=g"):
        check(path, tmp_path, rewrite=False)
    check(path, tmp_path, rewrite=True)
    assert path.read_text() == MADE.format(error="UNKNOWN_MEMBER_ID")
    check(path, tmp_path, rewrite=False)


def test_an_output_with_empty_lines_stands_between_two_bars():
    text = "# c\n\none\nbody\n----\n----\na\n\nb\n----\n----\n\ntwo\n----\nc\n"
    blocks = script.read(text)
    assert [block.command() for block in blocks[:-1]] == [(["one"], ["body"]), (["two"], [])]
    assert [block.output for block in blocks] == ["a\n\nb\n", "c\n", None]
    assert script.written(blocks, ["a\n\nb\n", "c\n"]) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("----\nx\n", "line 1: an output without a command"),
        ("# only a comment\n----\nx\n", "line 2: an output without a command"),
        ("one\n----\n----\nx\n", "line 2: an output that does not end"),
    ],
)
def test_a_transcript_that_cannot_be_read_is_refused_with_its_line(text, message):
    with pytest.raises(ValueError, match=message):
        script.read(text)
