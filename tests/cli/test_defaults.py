"""The defaults of options are those of the Python interface, and those that the pages name."""

import dataclasses
import re

import click
import pytest

from coterie.cli import coterie
from coterie.errors import ArgumentError
from coterie.insight.offsets import loss_counts
from coterie.insight.offsets.loss_findings import Thresholds
from coterie.insight.questions import audit, expire, explain, growth, lag, metrics, undo
from support.sources import ROOT

QUESTIONS = {
    "audit": audit, "expire": expire, "explain": explain, "growth": growth, "lag": lag,
    "metrics": metrics, "undo": undo,
}  # fmt: skip
# In a page: `--option` VALUE, at the end of a table's row or before another option.
NAMED = re.compile(r"`(--[a-z-]+)` (\d+[smhd]?)(?=,| within| \|)")


def defaults_of(command):
    """Name and option -> the value that the command gets if the option is not given."""
    context = click.Context(command)
    values = {}
    for option in command.params:
        if option.to_info_dict().get("default") is not None:
            value = option.type_cast_value(context, option.get_default(context))
            values |= dict.fromkeys((option.name, *option.opts), value)
    return values


def command(name):
    return coterie.get_command(click.Context(coterie), name)


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_option_that_is_not_given_is_the_default_of_the_question(name):
    given = defaults_of(command(name))
    for field in dataclasses.fields(QUESTIONS[name].Parameters):
        default = field.default
        if field.name in given and default is not dataclasses.MISSING and default is not None:
            assert given[field.name] == default, field.name


def test_the_page_of_audit_names_the_default_of_each_threshold():
    given, context = defaults_of(command("audit")), click.Context(command("audit"))
    option_of = {name: option for option in command("audit").params for name in option.opts}
    rows = NAMED.findall((ROOT / "docs/audit.md").read_text(encoding="utf-8"))
    assert len(rows) == 12
    for name, value in rows:
        assert given[name] == option_of[name].type_cast_value(context, value), name


def test_metrics_count_losses_by_the_thresholds_of_an_audit():
    names = {field.name for field in dataclasses.fields(Thresholds)}
    of_audit = Thresholds(**{name: getattr(audit.Parameters(), name) for name in names})
    assert dataclasses.replace(of_audit, rewind_by=None) == loss_counts.DEFAULT


def test_a_watch_looks_every_ten_seconds_and_covers_a_week():
    """docs/watch.md: `--interval` (10 seconds), `--keep` (7 days)."""
    given = defaults_of(command("watch"))
    assert (given["--interval"], given["--keep"]) == (10.0, 7 * 86_400_000)


@pytest.mark.parametrize("name", QUESTIONS)
def test_python_and_spark_refuse_what_an_option_refuses(name):
    """One bound for each parameter, whoever asks; with it the command has an option."""
    options, least = defaults_of(command(name)), {}
    for field in dataclasses.fields(QUESTIONS[name].Parameters):
        if field.metadata:
            assert field.default is None or field.name in options
            least[field.name] = field.metadata["least"]
    for parameter, value in least.items():
        QUESTIONS[name].Parameters(**{parameter: value})
        with pytest.raises(ArgumentError, match=f"{parameter} must be at least {value}"):
            QUESTIONS[name].Parameters(**{parameter: value - 1})
    assert bool(least) == (name in ("audit", "explain", "growth"))
