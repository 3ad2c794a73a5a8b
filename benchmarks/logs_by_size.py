"""Logs by size for the benchmarks: made on demand, removed afterwards.

pytest keeps the folders of its last three runs. Were the logs left in them, three runs of all
sizes would fill a disk with a hundred gigabytes.
"""

import shutil


class LogsBySize:
    """A function from a size to the folder of a log; ``write(folder, size_bytes, *others)``."""

    def __init__(self, home, write):
        self.home, self.write, self.made = home, write, {}

    def __call__(self, size_bytes, *others, alone=False):
        """Return the log's folder; ``alone``: the others go, where a disk would not hold all."""
        key = size_bytes, *others
        if alone:
            self.remove(but=key)
        if key not in self.made:
            self.made[key] = self.home / "-".join(map(str, key))
            self.write(self.made[key], *key)
        return self.made[key]

    def remove(self, but=None):
        for key in [key for key in self.made if key != but]:
            shutil.rmtree(self.made.pop(key))
