"""The pages of ``docs/`` and their code blocks."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page, language):
    """The code blocks of a page in one language."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
