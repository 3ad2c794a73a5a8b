"""Class paths of jars that Maven downloads; without them a test is skipped by name."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def classpath(project, what, *options):
    """The class path of a folder with a ``pom.xml``; ``what`` needs it."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {what}: {tool} is not installed")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "classpath"
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={file}", *options]
        result = subprocess.run(
            ["mvn", "-q", "-B", *goal], cwd=project, capture_output=True, text=True, check=False
        )
        if result.returncode:
            pytest.skip(f"no {what}: Maven brought no jars: {result.stdout.strip()[:200]}")
        return file.read_text()
