"""Packages that an extra brings: what to say where one is missing."""

from __future__ import annotations

from coterie.errors import CoterieError

NEEDS = {  # module that may be missing -> what to do
    "pyspark": "pip install 'coterie[spark]', or use --engine local",
    "pandas": "pip install 'coterie[spark]', or use --engine local",
    "coterie_spark": "pip install 'coterie[spark]', or use --engine local",
    "pyarrow": "pip install 'coterie[arrow]', or use --engine local --format json",
    "jinja2": "pip install 'coterie[report]'",
    "markupsafe": "pip install 'coterie[report]'",
}


def missing_module(error: ModuleNotFoundError) -> CoterieError:
    """Return what to raise where a module that an extra brings is missing."""
    name = (error.name or "").partition(".")[0]
    if name not in NEEDS:
        raise error
    return CoterieError(f"{name} is not installed; {NEEDS[name]}")
