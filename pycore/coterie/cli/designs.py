"""``coterie designs``: scenarios under the designs before today's coordinator, and beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from coterie.cli.failures import Failed, say
from coterie.errors import CoterieError

ACTUAL = ".actual.json"


@click.group("designs", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Run a scenario under the older designs: ZooKeeper consumers of 0.8.2, SimpleConsumer.

    A scenario (NAME.json) says who starts, closes or dies, what fails and when, in virtual time.
    """


@command.command("run")
@click.argument("scenarios", nargs=-1, required=True, metavar="SCENARIO...")
@click.option("--out", required=True, metavar="DIR", help="Folder for NAME.actual.json.")
@click.option("--overwrite", is_flag=True, help="Replace outputs that exist.")
def run_command(scenarios: tuple[str, ...], out: str, overwrite: bool) -> None:
    """Run scenarios: files, or folders of them; what is there at each point goes to --out.

    Formats: coterie-zk08 (what is there at each settle) and coterie-simple08 (the response to each
    request). What a file says is expected is not read. Exit 1 if any scenario is wrong.
    """
    source: dict[Path, Path] = {}
    for path in _found(scenarios):
        target = Path(out) / (path.stem + ACTUAL)
        if target in source:
            raise click.UsageError(f"{path} and {source[target]} would both be written to {target}")
        source[target] = path
    keep = [str(path) for path in source.values()]
    _refuse_loss(out, source, overwrite=overwrite, keep=keep)
    failed = sum(
        not _run_one(path, target, overwrite=overwrite, keep=keep)
        for target, path in source.items()
    )
    say(f"{len(source) - failed} run, {failed} failed")
    if failed:
        raise click.exceptions.Exit(1)


def _found(given: Iterable[str]) -> Iterable[Path]:
    for name in given:
        path = Path(name)
        if not path.is_dir():
            yield path
            continue
        files = [one for one in sorted(path.glob("*.json")) if not one.name.endswith(ACTUAL)]
        if not files:
            raise CoterieError(f"{name}: holds no file that ends in .json")
        yield from files


def _refuse_loss(
    out: str, targets: Iterable[Path], *, overwrite: bool, keep: Iterable[str]
) -> None:
    """Refuse, before any work, an output that is there already."""
    from coterie.cli import outfile

    if Path(out).exists() and not Path(out).is_dir():
        raise Failed(f"--out {out}: is a file; name a folder")
    for target in targets:
        outfile.refuse_loss(str(target), Path(os.path.realpath(target)), overwrite, keep)


def _run_one(path: Path, target: Path, *, overwrite: bool, keep: Iterable[str]) -> bool:
    """Run a scenario; whether that went well. If not, it is said."""
    from coterie.cli.outfile import whole_file
    from coterie.cli.outfolder import room_for

    at: Path = path
    try:
        actual = _actual(_read(path), path.stem)
        at = target
        with (
            room_for(target),
            whole_file(str(target), overwrite=overwrite, keep=keep) as part,
            part.open("w", encoding="utf-8") as file,
        ):
            json.dump(actual, file, ensure_ascii=False, indent=1)
            file.write("\n")
    except (OSError, ValueError, RecursionError, CoterieError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if isinstance(error, RecursionError):
            what = "nested too deeply"
        say(f"coterie: {at}: {what}")
        return False
    return True


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not text: {error}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None


def _actual(scenario: Any, name: str) -> dict[str, Any]:
    """Run what a file holds; return what goes into its output."""
    if isinstance(scenario, Mapping) and scenario.get("format") == "coterie-simple08":
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

    click.echo("designs")
    for design in DESIGNS:
        click.echo(f"  {design}")
    click.echo("scenarios")
    for name, doc in shipped().items():
        click.echo(f"  {name:<20}  {doc}")


@command.command("compare")
@click.argument("scenario", metavar="SCENARIO")
@click.option("--design", "designs", multiple=True, help="Which design; all if none is named.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A consumer setting.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table")
def compare_command(
    scenario: str, designs: tuple[str, ...], settings: tuple[str, ...], form: str
) -> None:
    """Run a scenario (a file, or a name of `coterie designs list`) under several designs.

    A cost that a design does not have is -.
    """
    from coterie.designs import DESIGNS, compare, read_scenario
    from coterie.designs.shipped import path_of

    path = path_of(scenario) or Path(scenario)
    try:
        given = _read(path)
        if isinstance(given, dict) and isinstance(given.get("config", {}), dict):
            given = {**given, "config": _with(given.get("config", {}), settings)}
        found = compare(read_scenario(given, name=path.stem), designs or DESIGNS)
    except (OSError, ValueError, RecursionError, CoterieError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Failed(f"{scenario}: {what}") from None
    if form == "json":
        click.echo(json.dumps({"name": found.name, "costs": found.costs}, indent=1))
        return
    rows = [["cost", *found.costs], *found.rows()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *values in rows:
        cells = [value.rjust(width) for value, width in zip(values, widths[1:], strict=True)]
        click.echo("  ".join([name.ljust(widths[0]), *cells]))


def _with(config: dict[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """Return a scenario's config with consumer settings over its own."""
    from coterie.designs.consumer08.config import KNOWN

    consumer = config.get("consumer", {})
    added = {}
    for one in settings:
        key, found, value = one.partition("=")
        if not key or not found:
            raise click.UsageError(f"--set takes KEY=VALUE, not {one}")
        if key not in KNOWN:
            raise click.UsageError(f"--set {one}: no such setting; there are {', '.join(KNOWN)}")
        added[key] = value
    return {**config, "consumer": {**consumer, **added}} if added else config
