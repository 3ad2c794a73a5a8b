"""Transcripts of the command line: ``coterie ...`` in a folder that has a golden log.

``folder NAME=PATH...`` begins with links to paths of tests/golden. ``cat FILE`` shows a file. The
output is standard output, then standard error, then the exit status unless it is 0.
"""

from support.commandline import coterie
from support.golden_data import GOLDEN


class Commands:
    """Commands in one folder."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, words, _body):
        """Return the lines that a command prints."""
        command, *rest = words
        if command == "folder":
            for name, _, path in (word.partition("=") for word in rest):
                (self.folder / name).symlink_to(GOLDEN / path)
            return []
        if command == "cat":
            return (self.folder / rest[0]).read_text().splitlines()
        assert command == "coterie", command
        result = coterie(*rest, cwd=self.folder)
        status = [f"exit status {result.returncode}"] if result.returncode else []
        return [*result.stdout.splitlines(), *result.stderr.splitlines(), *status]
