"""``make chart-library`` copies nothing of a package that has another digest."""

import os
import subprocess
from pathlib import Path

from coterie.report import shell

ROOT = Path(__file__).parents[2]
PACKAGES = Path(shell.__file__).parent / "assets" / "vendor" / "packages.sha256"


def test_a_package_with_another_digest_is_not_copied(tmp_path):
    vendor, bin_folder = tmp_path / "vendor", tmp_path / "bin"
    for folder in (vendor, bin_folder):
        folder.mkdir()
    (vendor / "packages.sha256").write_bytes(PACKAGES.read_bytes())
    npm = bin_folder / "npm"
    npm.write_text("#!/bin/sh\nshift 2\nfor name; do touch $(echo $name | tr @ -).tgz; done\n")
    npm.chmod(0o755)
    made = subprocess.run(
        ["make", "chart-library", f"VENDOR={os.path.relpath(vendor, ROOT)}"],
        cwd=ROOT, env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert made.returncode
    assert "echarts" in made.stdout
    assert "FAILED" in made.stdout
    assert [path.name for path in vendor.iterdir()] == ["packages.sha256"]
