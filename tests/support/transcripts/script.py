"""Transcripts: text files of inputs and the outputs that they must have.

A paragraph is a block: a command, lines of input if the command takes any, ``----``, and the
output up to an empty line. An output that has empty lines of its own stands between ``----`` twice
and ``----`` twice. Lines with ``#`` in front are comments; a paragraph may have nothing else. The
form is that of CockroachDB's datadriven tests.
"""

import shlex
from typing import NamedTuple

BAR = "----"


class Block(NamedTuple):
    """Text up to an output, and the output; the last block of a transcript has no output."""

    line: int  # number of the command's line in the file
    text: list[str]  # comments, empty lines, the command and its input
    output: str | None

    def command(self):
        """Return the words of the command, and the lines of input below it."""
        paragraph = []
        for line in self.text:
            paragraph = [*paragraph, line] if line else []
        command, *body = [line for line in paragraph if not line.startswith("#")]
        return shlex.split(command), body


def read(text):
    """Take a transcript apart; ValueError if an output has no end or no command."""
    lines = text.splitlines()
    blocks, start, at = [], 0, 0
    while at < len(lines):
        if lines[at] != BAR:
            at += 1
            continue
        head, long = lines[start:at], lines[at + 1 : at + 2] == [BAR]
        if not head or not head[-1] or head[-1].startswith("#"):
            raise ValueError(f"line {at + 1}: an output without a command")
        bar = at + 1
        first = at = at + (2 if long else 1)
        while at < len(lines) and not (lines[at : at + 2] == [BAR, BAR] if long else not lines[at]):
            at += 1
        if long and at == len(lines):
            raise ValueError(f"line {bar}: an output that does not end")
        output = "".join(f"{line}\n" for line in lines[first:at])
        blocks.append(Block(bar - 1, head, output))
        at += 2 if long else 0
        start = at
    return [*blocks, Block(len(lines), lines[start:], None)]


def written(blocks, outputs):
    """Return the text of a transcript with other outputs."""
    lines = []
    for block, output in zip(blocks, [*outputs, None], strict=True):
        lines += block.text
        if output is not None:
            rows = output.splitlines()
            bars = [BAR, BAR] if "" in rows else [BAR]
            lines += [*bars, *rows, *(bars if "" in rows else [])]
    return "\n".join(lines).rstrip("\n") + "\n"


def play(blocks, starts, *context):
    """Run the commands and return their outputs.

    ``starts`` has the kinds of session by the command that begins one; a session runs the commands
    up to the next beginning.
    """
    session, outputs = None, []
    for block in blocks[:-1]:
        words, body = block.command()
        if words[0] in starts:
            session = starts[words[0]](*context)
        elif session is None:
            raise ValueError(f"line {block.line}: no session has begun; begin one of {[*starts]}")
        rows = [row.rstrip() for row in session.run(words, body)]
        outputs.append("".join(f"{row}\n" for row in rows))
    return outputs
