"""Errors for missing optional dependencies."""

from __future__ import annotations

import sys

from coterie.errors import CoterieError

NEEDS = {  # optional module -> how to get it
    "pyspark": "pip install 'coterie[spark]', or use --engine local",
    "pandas": "pip install 'coterie[spark]', or use --engine local",
    "coterie_spark": "pip install 'coterie[spark]', or use --engine local",
    "pyarrow": "pip install 'coterie[arrow]', or use --engine local --format json",
    "aiokafka": "pip install 'coterie[cluster]'",
    "greenlet": "pip install 'coterie[histories]'",
    "confluent_kafka": "pip install confluent-kafka",
    "hypothesis": "pip install 'coterie[histories]'",
    "jinja2": "pip install 'coterie[report]'",
    "mcp": "pip install 'coterie[mcp]'",
    "anyio": "pip install 'coterie[mcp]'",
    "markupsafe": "pip install 'coterie[report]'",
}


def missing_module(error: ModuleNotFoundError) -> CoterieError:
    """Build the error for a missing optional dependency; raise ``error`` for any other module."""
    name = (error.name or "").partition(".")[0]
    if name not in NEEDS:
        raise error
    if getattr(sys, "frozen", False):  # by PyInstaller: nothing can be installed there
        return CoterieError(f"{name} is not in the standalone folder; with Python: {NEEDS[name]}")
    return CoterieError(f"{name} is not installed; {NEEDS[name]}")
