"""Scenarios of the designs on Spark: each scenario under each design is a task.

The worker is a plain function from Arrow batches to Arrow batches. A wrong scenario becomes a row
with ``error`` set; the others are not affected.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coterie.errors import ArgumentError, CoterieError, shown
from coterie_spark.replay_job.closures import shipped
from coterie_spark.replay_job.tasks import a_row_a_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DESIGNS_DDL", "run_designs"]

DESIGNS_DDL = (
    "scenario string, design string, costs map<string, double>, points array<string>, error string"
)
WRONG = (OSError, ValueError, RecursionError, CoterieError)


def row_of(name: str, path: str | None, text: str | None, design: str) -> dict[str, Any]:
    """Run a scenario under a design; return its row."""
    from coterie.designs import read_scenario, run
    from coterie.designs.files import error_line, path_or_shipped, read_json

    row: dict[str, Any] = {"scenario": name, "design": design, "costs": None, "points": None}
    try:
        fields = json.loads(text or "") if path is None else read_json(path_or_shipped(path))
        scenario = read_scenario(fields, name=name)
        result = run(scenario, design, timeline=False)
    except WRONG as error:
        return row | {"error": f"{path or name}: {error_line(error)}"}
    costs = [
        (cost, None if value is None else float(value)) for cost, value in result.costs.items()
    ]
    points = [json.dumps(point, ensure_ascii=False) for point in result.points]
    row["scenario"] = scenario.name
    return row | {"costs": costs, "points": points, "error": None}


def run_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    text, fields = pa.string(), ("scenario", "design", "costs", "points", "error")
    types = {"costs": pa.map_(text, pa.float64()), "points": pa.list_(text)}
    schema = pa.schema([(field, types.get(field, text)) for field in fields])
    for batch in batches:
        for task in batch.to_pylist():
            row = row_of(task["scenario"], task["path"], task["text"], task["design"])
            yield pa.RecordBatch.from_pylist([row], schema)


def run_designs(
    spark: SparkSession,
    scenarios: str | Mapping[str, Any] | Iterable[str | Mapping[str, Any]],
    designs: Sequence[str] = (),
) -> DataFrame:
    """Run scenarios under designs on Spark, each as a task of its own.

    Parameters
    ----------
    scenarios
        One scenario or several. Each is the name of a scenario that comes with coterie, a file or
        a folder of files that every worker must see, or the dict of such a file.
    designs
        Names of designs, as in ``coterie.designs.DESIGNS``; by default all.

    Returns
    -------
    DataFrame
        A row for each scenario and design: ``scenario`` (its name), ``design``, ``costs`` (by
        name; null where the design does not have that cost), ``points`` (the JSON of each), and
        ``error``: one line for a wrong scenario, which has neither costs nor points.

    Raises
    ------
    ArgumentError
        A design is unknown, or a scenario is not of a supported type.
    """
    from coterie.designs import DESIGNS

    for design in designs:
        if design not in DESIGNS:
            raise ArgumentError(f"designs: {shown(design)} is none of {', '.join(DESIGNS)}")
    several = [scenarios] if isinstance(scenarios, str | Mapping) else list(scenarios)
    tasks = [
        (*source, design)
        for number, scenario in enumerate(several)
        for source in _sources(scenario, f"scenarios[{number}]")
        for design in dict.fromkeys(designs or DESIGNS)
    ]
    columns = "scenario string, path string, text string, design string"
    return a_row_a_task(spark, tasks, columns).mapInArrow(shipped(run_batches), DESIGNS_DDL)


def _sources(scenario: Any, place: str) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield each scenario's name, and its file or its JSON."""
    from coterie.designs.files import files_of
    from coterie.designs.shipped import path_of

    if isinstance(scenario, str):
        if path_of(scenario) is not None:  # each worker has its own
            yield scenario, scenario, None
            return
        for path in files_of([scenario]):
            yield path.stem, str(path.absolute()), None
        return
    if not isinstance(scenario, Mapping):
        raise ArgumentError(f"{place}: {shown(scenario)} is no name, path or dict")
    try:
        yield str(scenario.get("name", place)), None, json.dumps(dict(scenario))
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"{place}: not JSON: {error}") from None
