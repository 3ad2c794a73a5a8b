"""Scenarios of the designs on Spark: a scenario under a design is a task.

The worker is a plain function from Arrow batches to Arrow batches. A scenario that is wrong is a
row with ``error`` set, and the others run on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coterie.errors import ArgumentError, CoterieError, shown
from coterie_spark.replay_job.closures import a_row_a_task, shipped

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
        given = json.loads(text) if text is not None else read_json(path_or_shipped(path or ""))
        scenario = read_scenario(given, name=name)
        found = run(scenario, design, timeline=False)
    except WRONG as error:
        return row | {"error": f"{path or name}: {error_line(error)}"}
    costs = [(cost, None if value is None else float(value)) for cost, value in found.costs.items()]
    points = [json.dumps(point, ensure_ascii=False) for point in found.points]
    row["scenario"] = scenario.name
    return row | {"costs": costs, "points": points, "error": None}


def run_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the scenarios that the rows name."""
    import pyarrow as pa

    text, fields = pa.string(), ("scenario", "design", "costs", "points", "error")
    types = {"costs": pa.map_(text, pa.float64()), "points": pa.list_(text)}
    schema = pa.schema([(field, types.get(field, text)) for field in fields])
    for batch in batches:
        for asked in batch.to_pylist():
            row = row_of(asked["scenario"], asked["path"], asked["text"], asked["design"])
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
        Scenarios: the name of one that comes with coterie, a file or a folder of files that every
        worker must see, or the dict that such a file holds; one, or several.
    designs
        Which designs, as ``coterie.designs.DESIGNS`` names them; all if none is named.

    Returns
    -------
    DataFrame
        A row for each scenario and design: ``scenario`` (its name), ``design``, ``costs`` (by
        name; null where the design has no such thing), ``points`` (the JSON of each), and
        ``error``, one line, set where a scenario is wrong; it then has no costs and no points.

    Raises
    ------
    ArgumentError
        There is no such design, or what is given is no scenario.
    """
    from coterie.designs import DESIGNS

    for design in designs:
        if design not in DESIGNS:
            raise ArgumentError(f"designs: {shown(design)} is none of {', '.join(DESIGNS)}")
    given = [scenarios] if isinstance(scenarios, str | Mapping) else list(scenarios)
    asked = [
        (*one, design)
        for number, scenario in enumerate(given)
        for one in _asked(scenario, f"scenarios[{number}]")
        for design in dict.fromkeys(designs or DESIGNS)
    ]
    columns = "scenario string, path string, text string, design string"
    return a_row_a_task(spark, asked, columns).mapInArrow(shipped(run_batches), DESIGNS_DDL)


def _asked(given: Any, place: str) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield each scenario's name, and its file or its JSON."""
    from coterie.designs.files import files_of
    from coterie.designs.shipped import path_of

    if isinstance(given, str):
        if path_of(given) is not None:  # each worker has its own
            yield given, given, None
            return
        for path in files_of([given]):
            yield path.stem, str(path.absolute()), None
        return
    if not isinstance(given, Mapping):
        raise ArgumentError(f"{place}: {shown(given)} is no name, path or dict")
    try:
        yield str(given.get("name", place)), None, json.dumps(dict(given))
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"{place}: not JSON: {error}") from None
