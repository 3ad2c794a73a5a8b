"""The scenarios that come with coterie, by name."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).with_name("scenarios")


def shipped() -> dict[str, str]:
    """Return what each scenario that comes with coterie shows, by its name."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json")))
    return {one["name"]: one["doc"] for one in found}


def path_of(name: str) -> Path | None:
    """Return the file of a scenario that comes with coterie; None for any other name."""
    return FOLDER / f"{name}.json" if name in shipped() else None
