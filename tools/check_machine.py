"""Check what a machine lacks before anything is installed or built.

Runs under the machine's own Python, with the standard library only. Prints a line to standard error
for each missing thing and exits with 1. ``make`` calls it before it creates the environment.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig


def missing():
    """Yield a line for each missing thing, with the command that installs it."""
    version = "{}.{}".format(*sys.version_info[:2])
    if sys.version_info < (3, 11):
        yield f"Python {version} is too old: install 3.11 or later, then: make PYTHON=python3.x"
        return
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        yield f"python{version} cannot create environments: apt-get install python{version}-venv"
    compiler = (os.environ.get("CC") or "").split()[:1] or ["cc", "gcc", "clang"]
    if not any(map(shutil.which, compiler)):
        yield f"no C compiler ({', '.join(compiler)}) is on the PATH: apt-get install gcc libc6-dev"
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        yield f"Python.h of python{version} is missing: apt-get install python{version}-dev"


if __name__ == "__main__":
    lines = list(missing())
    for line in lines:
        print(f"coterie: {line}", file=sys.stderr)
    sys.exit(bool(lines))
