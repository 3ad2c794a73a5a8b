"""``coterie designs``: run scenarios under Kafka's designs of group coordination."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.base.terminal import print_text
from coterie.cli.failures import Failed, say
from coterie.errors import ArgumentError, CoterieError

if TYPE_CHECKING:
    from coterie.designs import Comparison, Scenario
    from coterie.insight.tables import Table


@click.group("designs", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Run a scenario under Kafka's designs, from ZooKeeper to the consumer protocol.

    A scenario (NAME.json) says who starts, closes or dies, what fails and when, in virtual time.
    """


@command.command("run")
@click.argument("scenarios", nargs=-1, required=True, metavar="SCENARIO...")
@click.option("--out", required=True, metavar="DIR", help="Folder for NAME.actual.json.")
@click.option("--overwrite", is_flag=True, help="Replace outputs that exist.")
def run_command(scenarios: tuple[str, ...], out: str, overwrite: bool) -> None:
    """Run scenarios: files, folders, names of `list`; the state at each point goes to --out.

    Formats: coterie-zk08 (the state at each settle) and coterie-simple08 (the response to each
    request). Expected results in a file are ignored. Exit 1 if any scenario is wrong.
    """
    from coterie.cli.output_file import check_files_in
    from coterie.designs.files import ACTUAL, files_of

    source: dict[Path, Path] = {}
    for path in files_of(scenarios):
        target = Path(out) / (path.stem + ACTUAL)
        if target in source:
            raise click.UsageError(f"{path} and {source[target]} would both be written to {target}")
        source[target] = path
    inputs = [str(path) for path in source.values()]
    check_files_in(out, source, overwrite=overwrite, inputs=inputs)
    failed = sum(
        not _run_one(path, target, overwrite=overwrite, inputs=inputs)
        for target, path in source.items()
    )
    say(f"{len(source) - failed} run, {failed} failed")
    if failed:
        raise click.exceptions.Exit(1)


def _run_one(path: Path, target: Path, *, overwrite: bool, inputs: Iterable[str]) -> bool:
    """Run a scenario; print an error and return False if it fails."""
    from coterie.cli.output_file import whole_file
    from coterie.cli.output_folder import room_for
    from coterie.designs.files import error_line, read_json

    file_at_fault: Path = path
    try:
        actual = _actual(read_json(path), path.stem)
        file_at_fault = target
        with (
            room_for(target),
            whole_file(str(target), overwrite=overwrite, inputs=inputs) as part,
            part.open("w", encoding="utf-8") as file,
        ):
            json.dump(actual, file, ensure_ascii=False, indent=1)
            file.write("\n")
    except (OSError, ValueError, RecursionError, CoterieError) as error:
        say(f"coterie: {file_at_fault}: {error_line(error)}")
        return False
    return True


def _actual(scenario: Any, name: str) -> dict[str, Any]:
    """Run the scenario of a file; return its output."""
    from coterie.designs.scenario import SIMPLE_FORMAT

    if isinstance(scenario, Mapping) and scenario.get("format") == SIMPLE_FORMAT:
        from coterie.designs import simple08

        steps = simple08.run(scenario)
        return {"name": scenario.get("name", name), "steps": steps}
    from coterie.designs import read_scenario, run

    checked = read_scenario(scenario, name=name)
    return {"name": checked.name, "points": run(checked, timeline=False).points}


@command.command("list")
def list_command() -> None:
    """List the designs, and the scenarios that come with coterie: a name is a SCENARIO, too."""
    from coterie.designs import DESIGNS
    from coterie.designs.shipped import shipped

    scenarios = (f"  {name:<20}  {doc}" for name, doc in shipped().items())
    designs = (f"  {design}" for design in DESIGNS)
    print_text("\n".join(["designs", *designs, "scenarios", *scenarios]))


@command.command("compare")
@click.argument("scenario", metavar="SCENARIO")
@click.option("--design", "designs", multiple=True, help="Which design; all if none is named.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A consumer setting.")
@click.option(
    "--behaviour",
    metavar="RELEASE",
    default="4.1",
    show_default=True,
    help="The release of Kafka whose rules the coordinator of consumer-protocol has.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "html"]),
    default="table",
    show_default=True,
    help="Costs as text or JSON, or a page of costs and of who owned what when.",
)
@click.option("-o", "--out", metavar="FILE", help="The file to write.")
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
def compare_command(
    scenario: str,
    designs: tuple[str, ...],
    settings: tuple[str, ...],
    behaviour: str,
    form: str,
    out: str | None,
    overwrite: bool,
) -> None:
    """Run a scenario (a file, or a name of `coterie designs list`) under several designs.

    A cost that a design does not have is shown as -. The page needs no network.
    """
    from coterie.cli.output_file import text_of, whole_file
    from coterie.coordinator.config import REPLAYING
    from coterie.designs import DESIGNS, compare
    from coterie.designs.files import error_line, path_or_shipped

    if out is None and form == "html":
        raise click.UsageError("the page goes into a file: --out FILE")
    if out is None and overwrite:
        raise click.UsageError("--overwrite replaces a file: --out FILE")
    for design in designs:
        if design not in DESIGNS:
            raise click.UsageError(f"--design {design}: there are {', '.join(DESIGNS)}")
    if behaviour not in REPLAYING:
        raise click.UsageError(f"--behaviour {behaviour}: there are {', '.join(REPLAYING)}")
    added = _settings(settings)
    path = path_or_shipped(scenario)
    target: contextlib.AbstractContextManager[Path | None] = contextlib.nullcontext()
    if out is not None:
        target = whole_file(out, overwrite=overwrite, inputs=[str(path)])
    with target as part:  # an existing file is refused before any work
        try:
            checked = _scenario(path, added)
            comparison = compare(
                checked, designs or DESIGNS, timeline=form == "html", behaviour=behaviour
            )
        except (OSError, ValueError, RecursionError, CoterieError) as error:
            raise Failed(f"{scenario}: {error_line(error)}") from None
        with text_of(part) as file:
            if form == "table":
                from coterie.cli.tables import show_tables

                show_tables([_table(comparison)], file, part is None)
            else:
                file.writelines(_lines(comparison, form))


def _table(comparison: Comparison) -> Table:
    """Return the costs as a table, a column for each design."""
    from coterie.insight.tables import NAME, Table  # with numpy, which --help does not need

    rows = [["cost", *comparison.runs], *comparison.rows()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    plain = [
        "  ".join([name.ljust(widths[0]), *map(str.rjust, values, widths[1:])])
        for name, *values in rows
    ]
    headings, *lines = rows
    columns = list(zip(*lines, strict=True))
    return Table(None, headings, [NAME] * len(headings), columns, plain=plain)


def _lines(comparison: Comparison, form: str) -> Iterable[str]:
    """Return a comparison as a page or as JSON, in pieces."""
    if form == "html":
        from coterie.designs.page import render

        return render(comparison)
    document = {"name": comparison.name, "costs": comparison.costs}
    return [json.dumps(document, indent=1), "\n"]


def _scenario(path: Path, added: Mapping[str, str]) -> Scenario:
    """Read a scenario; ``added`` consumer settings override those of the file."""
    from coterie.designs import read_scenario
    from coterie.designs.files import read_json

    document = read_json(path)
    if added and isinstance(document, dict) and isinstance(document.get("config", {}), dict):
        config = document.get("config", {})
        consumer = config.get("consumer", {})
        if isinstance(consumer, dict):
            document = {**document, "config": {**config, "consumer": {**consumer, **added}}}
    return read_scenario(document, name=path.stem)


def _settings(pairs: Iterable[str]) -> dict[str, str]:
    """Parse ``--set`` options; raise a usage error for an unknown setting or a wrong value."""
    from coterie.designs.consumer08_cluster import KNOWN, consumer_config

    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--set takes KEY=VALUE, not {pair}")
        if key not in KNOWN:
            raise click.UsageError(f"--set {pair}: no such setting; there are {', '.join(KNOWN)}")
        try:
            consumer_config({key: value})
        except ArgumentError as error:
            raise click.UsageError(f"--set {pair}: {error}") from None
        settings[key] = value
    return settings
