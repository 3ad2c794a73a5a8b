"""The tools of ``coterie mcp``: commands whose answers are data, their arguments and rows.

A tool is a command, its arguments are the command's options: a new question, or a new option, is
there without a line here. Options that write, that name a file or a cluster, or that only draw are
no arguments.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import click

from coterie.base.printable import shell_words
from coterie.base.times import format_time
from coterie.cli import COMMANDS, coterie
from coterie.cli.params import Duration, Time
from coterie.errors import CoterieError
from coterie.insight.fields import Fields
from coterie.insight.question_engine import fields_of, find_question

OTHER_TOOLS = ("groups", "compare", "records", "verify", "rehearse")  # no questions, but data
NO_TOOLS = ("metrics",)  # what it answers, it answers for Prometheus
WRITE_OR_REACH = ("execute", "yes", "out", "overwrite", "servers", "engine", "master", "conf")
ONLY_DRAW = ("form", "by", "top", "by_offset", "clients_named", "layout", "take", "log_zone")
BROKER_LOGS = {"--server-log", "--request-log"}
CUT_TEXT, CUT_LIST = 1_000, 20  # of a row that is larger than a page

SCHEMAS = {
    "int32": {"type": "integer"},
    "int64": {"type": "integer"},
    "string": {"type": "string"},
    "double": {"type": "number"},
    "bool": {"type": "boolean"},
    "timestamp": {"type": "string", "format": "date-time"},
}


@dataclass(frozen=True)
class Source:
    """What the tools read: an operator chooses it, no client does.

    ``log``: LOG..., or none with the options of ``cluster``; ``files``: options and their values,
    for each tool that has the option; ``copies``: the logs of other brokers.
    """

    log: tuple[str, ...]
    cluster: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    copies: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tool:
    """A command as a tool."""

    name: str
    command: click.Command
    fields: Fields

    @cached_property
    def options(self) -> dict[str, click.Option]:
        """Argument -> the option that it is."""
        return {
            max(option.opts, key=len).lstrip("-").replace("-", "_"): option
            for option in self.command.params
            if isinstance(option, click.Option)
            and not option.hidden
            and not (option.metavar == "FILE" or isinstance(option.type, click.Path))
            and option.name not in (*WRITE_OR_REACH, *ONLY_DRAW)
        }

    def has(self, name: str) -> bool:
        """Whether the command has a parameter."""
        return any(one.name == name for one in self.command.params)

    def words(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return arguments as words of the command; CoterieError if one is none of its own."""
        words = []
        for name, value in arguments.items():
            option = self.options.get(name)
            if option is None:
                known = ", ".join(self.options)
                raise CoterieError(f"{self.name} has no argument {name!r}; it has {known}")
            flag = max(option.opts, key=len)
            for one in value if option.multiple and isinstance(value, list) else [value]:
                if one is None or (option.is_flag and one is False):
                    continue
                if (one is not True) if option.is_flag else not _is_text(one):
                    kind = "true or false" if option.is_flag else "a string or an integer"
                    raise CoterieError(f"{name} must be {kind}, not {json.dumps(one)}")
                words.append(flag if option.is_flag else f"{flag}={one}")
        return words

    def source_words(self, source: Source) -> list[str]:
        """Return the words of the command that say what it reads."""
        own = {flag for option in self.command.params for flag in option.opts}
        if not {flag for flag, _ in source.files} & own & BROKER_LOGS:
            own.discard("--log-zone")
        files = [f"{flag}={value}" for flag, value in source.files if flag in own]
        copies = source.copies if self.name == "compare" else ()
        return [*source.cluster, *files, "--", *source.log, *copies]

    def shown(self, words: Iterable[str], source: Source) -> str:
        """Return the command line that answers the same for a person."""
        return "coterie " + shell_words(
            word for word in [self.name, *words, *self.source_words(source)] if word != "--"
        )

    @property
    def arguments_schema(self) -> dict[str, Any]:
        """The arguments as JSON Schema."""
        return {name: _schema_of_option(option) for name, option in self.options.items()}


def _is_text(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def tools_of(source: Source) -> dict[str, Tool]:
    """Return the tools by name, in the order of the commands."""
    tools = {}
    context = click.Context(coterie)
    for name in COMMANDS:
        module = f"coterie.insight.questions.{name}"
        is_question = importlib.util.find_spec(module) is not None and name not in NO_TOOLS
        if not is_question and (
            name not in OTHER_TOOLS or (name == "compare" and not source.copies)
        ):
            continue
        command = coterie.get_command(context, name)
        assert command is not None
        fields = fields_of(find_question(name)) if is_question else {}
        if name == "compare":
            from coterie.insight.records.comparison import FIELDS as fields
        elif name == "records":
            fields = {"timestamp": "timestamp"}
        tools[name] = Tool(name, command, fields)
    return tools


def _schema_of_option(option: click.Option) -> dict[str, Any]:
    kind: Any = option.type
    schema: dict[str, Any] = {"type": "string"}
    if option.is_flag:
        schema = {"type": "boolean"}
    elif isinstance(kind, click.Choice):
        schema["enum"] = list(kind.choices)
    elif isinstance(kind, click.IntRange):
        bounds = {"minimum": kind.min, "maximum": kind.max}
        schema = {"type": "integer"} | {k: v for k, v in bounds.items() if v is not None}
    elif isinstance(kind, Time):
        schema["format"] = "date-time"
    elif isinstance(kind, Duration):
        schema["examples"] = ["250ms", "90s", "7d"]
    if option.show_default and isinstance(option.default, str | int):
        schema["default"] = option.default
    if option.multiple:
        schema = {"type": "array", "items": schema}
    return {**schema, "description": option.help or ""}


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a value of a row; a value without one is left out of the row."""
    if isinstance(kind, list):
        return {"type": "array", "items": schema_of(kind[0])}
    if isinstance(kind, Mapping):
        properties = {name: schema_of(inner) for name, inner in kind.items()}
        return {"type": "object", "properties": properties}
    return SCHEMAS[kind]


def typed(value: Any, kind: Any) -> Any:
    """Return a value of a command's JSON as a tool has it.

    Times are text, fields that are documented and have no value are left out, and what is no
    Unicode is escaped.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if kind == "timestamp" and isinstance(value, int):
        return format_time(value)
    if isinstance(value, list):
        of = kind[0] if isinstance(kind, list) else None
        return [typed(one, of) for one in value]
    if isinstance(value, dict):
        fields = kind if isinstance(kind, Mapping) else {}
        return {
            name: typed(one, fields.get(name))
            for name, one in value.items()
            if name not in fields or (one is not None and one != [])
        }
    return value


def shortened(value: Any) -> Any:
    """Return a value with its long texts and lists cut; a text says how long it was."""
    if isinstance(value, str) and len(value) > CUT_TEXT:
        return f"{value[:CUT_TEXT]}... ({len(value):,} characters)"
    if isinstance(value, list):
        return [shortened(one) for one in value[:CUT_LIST]]
    if isinstance(value, dict):
        return {name: shortened(one) for name, one in value.items()}
    return value


def rows_in(output: str) -> Iterator[str]:
    """Yield the rows of a command's JSON, which has one a line, as texts of JSON."""
    for line in output.split("\n"):
        if line.startswith("{"):
            yield line.removesuffix(",")
