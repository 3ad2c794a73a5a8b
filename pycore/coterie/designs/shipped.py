"""The scenarios that come with coterie, by name."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).with_name("scenarios")


def shipped() -> dict[str, str]:
    """Return the description of each shipped scenario, by its name."""
    scenarios = (
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))
    )
    return {scenario["name"]: scenario["doc"] for scenario in scenarios}


def path_of(name: str) -> Path | None:
    """Return the file of a shipped scenario; None for any other name."""
    return FOLDER / f"{name}.json" if name in shipped() else None
